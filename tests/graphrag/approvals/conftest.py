"""A graph with a thread that proposes, for tests that need nothing else of it."""

import pytest

from tests.graphrag.approvals.helpers import Bench, a_bench


@pytest.fixture
async def bench() -> Bench:
    return await a_bench()
