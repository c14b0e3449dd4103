"""Graphs as wholes on every store: made, copied, renamed, deleted for 30 days, restored,
gone for good.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from datasources.base import Database, Record
from datasources.errors import GraphNotFound, SourceBusy
from datasources.sqlite import SqliteDatabase
from datasources.types import Graph, Mutation
from graphrag.app import deleted_graphs as deleted
from graphrag.app import whole_graphs as whole
from graphrag.approvals import Approvals
from graphrag.leases import now_ms
from graphrag.roles import Person
from tests.contracts.samples import FLOW, OTHER, WORKSPACE, a_node, an_edge, make_flow

ED = Person("ed", "editor", WORKSPACE)


@pytest.fixture
async def database(database_of_a_kind: Callable[[], Database]) -> AsyncIterator[Database]:
    async with database_of_a_kind() as opened:
        await make_flow(opened)
        yield opened


@pytest.fixture
def approvals(database: Database) -> Approvals:
    return Approvals(database.source(WORKSPACE), database.records(WORKSPACE))


async def content(approvals: Approvals, key: str) -> list[Any]:
    source = approvals.source
    found = [*await source.get_nodes(key), *await source.get_edges(key)]
    return [{**one.to_document(), "graphKey": ""} for one in found]


async def test_a_deleted_graph_is_gone_for_all_and_comes_back_whole(
    approvals: Approvals, database: Database
) -> None:
    before = await content(approvals, FLOW)
    graph = await approvals.source.get_graph(FLOW)
    gone = await deleted.delete_graph(approvals, FLOW, ED)
    assert FLOW not in {one.key for one in await approvals.source.list_graphs()}
    assert (gone.name, gone.nodes, gone.edges, gone.deleted_by) == (graph.name, 5, 6, "ed")
    with pytest.raises(GraphNotFound):
        await deleted.delete_graph(approvals, FLOW, ED)
    stranger = Approvals(database.source(OTHER), database.records(OTHER))
    assert await deleted.deleted_graphs(stranger) == []
    with pytest.raises(GraphNotFound):
        await deleted.restore_graph(stranger, FLOW, Person("eve", "admin", OTHER))
    assert await deleted.purge(approvals) == []
    back = await deleted.restore_graph(approvals, FLOW, ED)
    assert {**back.to_document(), "revision": 0} == {**graph.to_document(), "revision": 0}
    assert await content(approvals, FLOW) == before
    assert await deleted.deleted_graphs(approvals) == []
    with pytest.raises(GraphNotFound):
        await deleted.restore_graph(approvals, FLOW, ED)
    assert [entry.facts["event"] for entry in await approvals.audit.entries(graph_key=FLOW)] == [
        "graph_restored",
        "graph_deleted",
    ]
    assert (await approvals.audit.verify()).is_sound


async def test_where_the_key_was_taken_again_a_graph_comes_back_under_another(
    approvals: Approvals, database: Database
) -> None:
    before = await content(approvals, FLOW)
    graph = await approvals.source.get_graph(FLOW)
    file = {
        "graphKey": FLOW,
        "createdTime": graph.created_time,
        "source": "x",
        "format": "n8n",
        "file": "f",
    }
    put = await approvals.records.put(
        Record(kind="imports", key=FLOW, data=file), expected_version=None
    )
    await deleted.delete_graph(approvals, FLOW, ED)
    await database.source(OTHER).create_graph(Graph(key=FLOW, name="theirs", workspace=OTHER))
    other = Record(kind="imports", key=FLOW, data={**file, "createdTime": 1, "source": "another"})
    await approvals.records.put(other, expected_version=put.version)
    back = await deleted.restore_graph(approvals, FLOW, ED)
    assert back.key != FLOW
    kept = await approvals.records.get("imports", back.key)
    assert kept.data == {**file, "graphKey": back.key}
    assert await content(approvals, back.key) == before
    assert (await database.source(OTHER).get_graph(FLOW)).name == "theirs"


async def test_after_thirty_days_nothing_is_left_but_the_audit_log(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = approvals.records
    for kind in ("history", "approval", "thread", "session", "automation", "imports"):
        for about in (FLOW, "another"):
            data = {"graphKey": about, "secret": "numbat"}
            await records.put(Record(kind=kind, key=about, data=data), expected_version=None)
    await records.put(
        Record(kind="thread", key="call", data={"graphKey": FLOW, "agentId": "a"}),
        expected_version=None,
    )
    await deleted.delete_graph(approvals, FLOW, ED)
    monkeypatch.setattr(deleted, "now_ms", lambda: now_ms() + deleted.KEPT_MS + 1)
    assert await deleted.deleted_graphs(approvals) == []
    with pytest.raises(GraphNotFound):
        await deleted.restore_graph(approvals, FLOW, ED)
    assert await deleted.purge(approvals) == [FLOW]
    for kind in (deleted.KIND, deleted.CONTENT):
        assert await records.query(kind) == []
    for kind in ("history", "approval", "thread", "session", "automation"):
        assert {one.key for one in await records.query(kind)} - {"call"} == {"another"}
    assert await records.get("imports", FLOW) is None
    assert await records.get("thread", "call") is not None
    assert [entry.facts["event"] for entry in await approvals.audit.entries()] == ["graph_deleted"]


async def test_what_was_made_again_under_the_key_keeps_its_records_when_the_old_one_goes(
    approvals: Approvals, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deleted.delete_graph(approvals, FLOW, ED)
    await make_flow(database)
    data = {"graphKey": FLOW}
    await approvals.records.put(Record(kind="thread", key="new", data=data), expected_version=None)
    monkeypatch.setattr(deleted, "now_ms", lambda: now_ms() + deleted.KEPT_MS + 1)
    assert await deleted.purge(approvals) == [FLOW]
    assert await approvals.records.get("thread", "new") is not None
    assert await approvals.source.get_nodes(FLOW)


async def test_a_deletion_that_a_kill_interrupted_is_ended_and_can_be_restored(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await content(approvals, FLOW)
    graph = await approvals.source.get_graph(FLOW)

    async def killed(_source: object, _graph_key: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(approvals.source), "delete_graph", killed)
        with pytest.raises(KeyboardInterrupt):
            await deleted.delete_graph(approvals, FLOW, ED)
    assert await content(approvals, FLOW) == before
    assert await deleted.purge(approvals) == []
    with pytest.raises(GraphNotFound):
        await approvals.source.get_graph(FLOW)
    assert (await deleted.restore_graph(approvals, FLOW, ED)).metadata == graph.metadata
    assert await content(approvals, FLOW) == before


async def test_a_copy_has_all_of_the_graph_and_its_file_and_lives_by_itself(
    approvals: Approvals, database: Database
) -> None:
    graph = await approvals.source.get_graph(FLOW)
    data = {
        "graphKey": FLOW,
        "createdTime": graph.created_time,
        "source": "x",
        "format": "n8n",
        "file": "f",
    }
    await approvals.records.put(Record(kind="imports", key=FLOW, data=data), expected_version=None)
    before = await content(approvals, FLOW)
    made = await whole.copy_graph(approvals, FLOW, "Über Copy", ED)
    assert (made.name, made.key[:11]) == ("Über Copy", "uber-copy-" + made.key[10])
    assert await content(approvals, made.key) == before
    kept = await approvals.records.get("imports", made.key)
    assert (kept.data["graphKey"], kept.data["createdTime"]) == (made.key, made.created_time)
    await approvals.source.apply(Mutation(graph_key=made.key, put_nodes=[a_node("new", made.key)]))
    assert await content(approvals, FLOW) == before
    stranger = Approvals(database.source(OTHER), database.records(OTHER))
    for work in (whole.copy_graph, whole.rename_graph):
        with pytest.raises(GraphNotFound):
            await work(stranger, FLOW, "mine", Person("eve", "admin", OTHER))
    assert (await whole.rename_graph(approvals, FLOW, "Other name", ED)).name == "Other name"
    assert (await whole.new_graph(approvals, "Aufträge", ED, language="de")).language == "de"
    empty = await whole.new_graph(approvals, "日本", ED, family="n8n")
    assert (empty.name, empty.category, empty.key[:6]) == ("日本", "n8n", "graph-")


async def test_a_graph_whose_edits_another_server_has_not_saved_is_not_deleted(
    approvals: Approvals,
) -> None:
    journal = Record(kind="journal", key="j", data={"graphKey": FLOW, "sequence": 1})
    await approvals.records.put(journal, expected_version=None)
    with pytest.raises(SourceBusy):
        await deleted.delete_graph(approvals, FLOW, ED)
    assert await approvals.source.get_nodes(FLOW)
    assert await deleted.deleted_graphs(approvals) == []


@pytest.mark.slow
async def test_a_large_graph_is_copied_deleted_and_restored_beside_the_event_loop(
    tmp_path: Path,
) -> None:
    async with SqliteDatabase(tmp_path / "large.db") as database:
        source = database.source(WORKSPACE)
        data = {"parameters": {f"field {i}": "some text " * 5 for i in range(10)}}
        nodes = [a_node(f"n{i}", "large", data={"name": f"n{i}", **data}) for i in range(5_000)]
        edges = [an_edge(f"e{i}", f"n{i - 1}", f"n{i}", "large") for i in range(1, 5_000)]
        filled = Mutation(graph_key="large", put_nodes=nodes, put_edges=edges)
        await source.create_graph(Graph(key="large", name="large", workspace=WORKSPACE), filled)
        approvals = Approvals(source, database.records(WORKSPACE))
        for work in (
            whole.copy_graph(approvals, "large", "copy", ED),
            deleted.delete_graph(approvals, "large", ED),
            deleted.restore_graph(approvals, "large", ED),
        ):
            assert await longest_work(work) < 0.1
        assert (await source.get_stats("large")).edges == 4_999


async def longest_work(work: Coroutine[Any, Any, Any]) -> float:
    """Return for how long the event loop's own thread computed at one go. Units: seconds of
    its CPU time.
    """
    task = asyncio.ensure_future(work)
    longest = 0.0
    while not task.done():
        began = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - began)
    await task
    return longest


async def test_a_graph_that_people_went_on_with_after_an_interrupted_deletion_stays(
    approvals: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def busy(_source: object, _graph_key: str) -> None:
        raise SourceBusy(source="a double", reason="it is busy")

    with monkeypatch.context() as patched:
        patched.setattr(type(approvals.source), "delete_graph", busy)
        with pytest.raises(SourceBusy):
            await deleted.delete_graph(approvals, FLOW, ED)
    new = Mutation(graph_key=FLOW, put_nodes=[a_node("made-since")])
    await approvals.source.apply(new, expected_revision=None)
    assert await deleted.purge(approvals) == []
    assert "made-since" in {node.key for node in await approvals.source.get_nodes(FLOW)}
    assert await deleted.deleted_graphs(approvals) == []
    await deleted.delete_graph(approvals, FLOW, ED)
    await deleted.restore_graph(approvals, FLOW, ED)
    assert "made-since" in {node.key for node in await approvals.source.get_nodes(FLOW)}
