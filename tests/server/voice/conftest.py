"""A server with calls that are not held, for the tests of what a telephone asks of it."""

from collections.abc import AsyncIterator

import pytest

from tests.server.voice.fake_calls import Answering, with_calls


@pytest.fixture
async def answering(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Answering]:
    async with with_calls(monkeypatch) as made:
        yield made
