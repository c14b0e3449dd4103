"""The sample graph opened live, for tests that need nothing else of it."""

from collections.abc import AsyncIterator

import pytest

from tests.graphrag.live.helpers import Bench, a_bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with a_bench() as made:
        yield made
