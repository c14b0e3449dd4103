"""kill -9 aimed at every write of an import: the graph is there whole, or as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from datasources.sqlite import SqliteDatabase
from datasources.types import Mutation
from graphrag.approvals import Approvals
from graphrag.importers.exchange import export_document
from tests.concurrency.import_workers import WORKSPACE, import_and_die, import_version
from tests.concurrency.killing import killing, last_write

KILLS = 50
"""Of each of the two imports: among all writes evenly, the first and the last included."""


async def _rename(path: Path) -> None:
    """Change what the second version of the file changes, too."""
    async with SqliteDatabase(path) as database:
        source = database.source(WORKSPACE)
        node = next(n for n in await source.get_nodes("flow") if n.data["name"] == "First 1")
        changed = node.replace(data={**node.data, "name": "Ours"})
        await source.apply(Mutation(graph_key="flow", put_nodes=[changed]))


async def _stored(path: Path) -> object:
    """Return all that an import stores, without what is another each time."""
    async with SqliteDatabase(path) as database:
        source, records = database.source(WORKSPACE), database.records(WORKSPACE)
        graphs = [graph.key for graph in await source.list_graphs()]
        approvals = Approvals(source, records)
        assert (await approvals.audit.verify()).is_sound
        kept = await records.get("imports", "flow")
        exported = await export_document(source, "flow") if graphs else {}
        times = ("createdTime", "lastUpdatedTime")
        graph = {k: v for k, v in exported.pop("graph", {}).items() if k not in times}
        return {
            "graphs": graphs,
            "graph": graph,
            "content": exported,
            "revision": (await source.get_graph("flow")).revision if graphs else None,
            "kept": kept.data["source"] if kept else None,
            "approvals": sorted(r.data["status"] for r in await records.query("approval")),
            "audit": [entry.facts["event"] for entry in await approvals.audit.entries()],
        }


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2], ids=["first import", "merge with a conflict"])
async def test_an_import_killed_at_any_write_is_whole_or_absent(tmp_path: Path, version: int) -> None:
    path = tmp_path / "start.db"
    async with SqliteDatabase(path):
        pass
    if version == 2:
        await import_version(path, 1)
        await _rename(path)
    before = await _stored(path)
    async with killing(import_and_die, tmp_path, version) as killed_at:
        last = await last_write(killed_at)
        after = await _stored(tmp_path / f"{last + 1}.db")
        found: list[bool] = []
        for number in range(KILLS):
            write = 1 + round(number * (last - 1) / (KILLS - 1))
            assert await killed_at(write)
            stored = await _stored(tmp_path / f"{write}.db")
            assert stored in (before, after), f"killed at write {write} of {last}"
            found.append(stored == after)
    assert last > KILLS
    print(f"{len(found)} kills at {last} writes: {sum(found)} whole, {len(found) - sum(found)} as before")
    assert before != after
    assert not all(found)
