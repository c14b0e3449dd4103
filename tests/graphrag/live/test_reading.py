"""A graph is made live beside the event loop, however large it is."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from datasources.mock import open_nba
from graphrag.changes.draft import LiveState
from graphrag.live import working_copy
from graphrag.live.working_copy import read_stored

GRAPH = "testgraph001"


async def test_the_working_copy_is_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def made(*given: Any) -> LiveState:
        seen.append(threading.get_ident())
        return LiveState(*given)

    monkeypatch.setattr(working_copy, "LiveState", made)
    async with open_nba("default") as database:
        source = database.source("default")
        state = await read_stored(source, GRAPH)
        assert len(state.nodes) == len(await source.get_nodes(GRAPH))
    (thread,) = seen
    assert thread != threading.get_ident()
