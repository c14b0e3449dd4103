"""Importing a workflow again takes what only the file changed, and leaves what people made."""

import base64
import zlib
from typing import Any

import pytest

from datasources.base import Record
from datasources.types import Edge, HandleGroup, HandlePoint, Mutation, Node
from graphrag.approvals import Approve, reason_text, title
from graphrag.importers.align import aligned
from graphrag.leases import now_ms
from tests.graphrag.importers.helpers import (
    KEY,
    Workbench,
    imported,
    n8n,
    n8n_node,
    new,
    put,
    read,
    renamed,
    to,
    two,
)
from tests.support.agents import an_ask


@pytest.fixture
async def bench() -> Workbench:
    return await imported()


async def test_same_file_targets_the_same_graph_and_changes_nothing(bench: Workbench) -> None:
    again = await bench.take(two())
    assert (again.graph_key, again.action, again.remarks()) == (KEY, "unchanged", [])
    assert (await bench.source.get_graph(KEY)).revision == 1


@pytest.mark.parametrize(
    "nodes",
    [
        [n8n_node("A", id="new"), n8n_node("B")],
        [n8n_node("B", id="id-of-A"), n8n_node("A", id="id-of-B")],
        [n8n_node("B"), n8n_node("A")],
    ],
)
async def test_a_node_is_known_by_its_id_else_by_its_name(nodes: list[Any]) -> None:
    content = await (await imported()).content(KEY)
    ids = {
        node["id"]: key
        for node in nodes
        for key in "ab"
        if node["id"] in ("new", f"id-of-{key.upper()}")
    }
    keys = {
        (n.model_extra or {})["origin"]["id"]: n.key
        for n in aligned(read(n8n(nodes)), content).nodes
    }
    assert keys == {**ids, **({"new": "a"} if "new" in ids else {})}


async def test_duplicates_of_one_name_keep_their_keys() -> None:
    bench = await imported(n8n([n8n_node("A", id=None, position=[i, 0]) for i in range(12)]))
    before = await bench.content(KEY)
    outcome = await bench.take(n8n([n8n_node("A", id=None, position=[i, 5]) for i in range(12)]))
    after = await bench.content(KEY)
    assert outcome.taken == 12
    assert {k: (n.pos_x, 5) for k, n in before.nodes.items()} == {
        k: (n.pos_x, n.pos_y) for k, n in after.nodes.items()
    }


async def test_what_people_added_stays(bench: Workbench) -> None:
    extra = HandlePoint(id="mine", type="out")
    own = HandleGroup(point=(HandlePoint(id="0", type="in"),))
    before = await bench.content(KEY)
    a = before.nodes["a"]
    await put(
        bench,
        a.replace(handles={**a.handles, "T": HandleGroup(point=(extra,))}, owner="Ann"),
        Node(key="c", graph_key=KEY, type="return", sheet="1", handles={"L": own}),
        edges=[Edge(key="e", graph_key=KEY, source="a", source_handle="mine", target="c")],
        graph=before.graph.replace(sheets_list={"0": "main", "1": "mine"}),
    )
    await bench.take(n8n([n8n_node("A", parameters={"x": 1}), n8n_node("C")]))
    content = await bench.content(KEY)
    assert set(content.nodes) == {"a", "c", "c-2"}
    assert content.nodes["c"].type == "return"
    assert content.nodes["a"].data["parameters"] == {"x": 1}
    assert ("T", extra) in content.nodes["a"].points("out")
    assert (content.nodes["a"].model_extra or {})["owner"] == "Ann"
    assert list(content.edges) == ["e"]
    assert content.graph.sheets_list == {"0": "main", "1": "mine"}


async def test_an_approved_rename_and_a_moved_node_outlive_a_new_version_of_the_file() -> None:
    bench = await imported()
    proposed = await bench.approvals.propose(
        {"type": "update_node", "payload": {"nodeKey": "a", "changes": {"data.name": "Fetch"}}},
        an_ask(KEY, bench.person),
    )
    await bench.approvals.decide(proposed.id, Approve(), bench.person)
    b = (await bench.content(KEY)).nodes["b"]
    await put(bench, b.replace(pos_x=900))
    outcome = await bench.take(new())
    content = await bench.content(KEY)
    assert content.nodes["a"].data == {"name": "Fetch", "parameters": {"x": 1}}
    assert (content.nodes["b"].pos_x, set(content.nodes)) == (900, {"a", "b", "c"})
    assert (outcome.action, outcome.kept, outcome.conflicts, outcome.approval) == (
        "updated",
        2,
        0,
        None,
    )
    assert outcome.remarks() == ["kept 2 nodes and edges that people changed"]
    undo = await bench.approvals.undo(KEY, proposed.id, by=bench.person)
    assert undo.status == "applied"
    assert (await bench.content(KEY)).nodes["a"].data == {"name": "A", "parameters": {"x": 1}}


async def test_what_both_changed_stays_and_the_files_version_is_proposed(bench: Workbench) -> None:
    await renamed(bench, "a", "Ours")
    theirs = n8n([n8n_node("Theirs", id="id-of-A", parameters={"x": 1}), n8n_node("B")])
    outcome = await bench.take(theirs)
    node = (await bench.content(KEY)).nodes["a"]
    assert node.data == {"name": "Ours", "parameters": {"x": 1}}
    assert (outcome.conflicts, outcome.action) == (1, "updated")
    assert outcome.approval
    waiting = await bench.approvals.get(outcome.approval, bench.person)
    (change,) = waiting.preview["nodesChanged"]
    assert [(f["path"], f["before"], f["after"]) for f in change["fields"]] == [
        (["data", "name"], "Ours", "Theirs")
    ]
    assert (await bench.take(theirs)).conflicts == 0  # it is asked once
    decided = await bench.approvals.decide(waiting.id, Approve(), bench.person)
    assert decided.status == "applied"
    assert (await bench.content(KEY)).nodes["a"].data == {"name": "Theirs", "parameters": {"x": 1}}
    await bench.approvals.undo(KEY, waiting.id, by=bench.person)
    assert (await bench.content(KEY)).nodes["a"].data == {"name": "Ours", "parameters": {"x": 1}}


async def test_a_node_that_people_changed_or_connected_is_not_deleted_with_the_files() -> None:
    bench = await imported(n8n([n8n_node("A"), n8n_node("B"), n8n_node("C")]))
    await renamed(bench, "b", "Ours")
    await put(bench, edges=[Edge(key="e", graph_key=KEY, source="a", target="c")])
    outcome = await bench.take(n8n([n8n_node("A")]))
    content = await bench.content(KEY)
    assert (set(content.nodes), set(content.edges), outcome.conflicts) == (
        {"a", "b", "c"},
        {"e"},
        2,
    )
    assert outcome.approval
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert set((await bench.content(KEY)).nodes) == {"a"}


async def test_a_node_that_people_deleted_comes_back_only_if_they_say_so(bench: Workbench) -> None:
    await bench.source.apply(Mutation(graph_key=KEY, delete_nodes=["b"]))
    assert (await bench.take(new())).conflicts == 0
    assert set((await bench.content(KEY)).nodes) == {"a", "c"}
    more = n8n([n8n_node("A"), n8n_node("B"), n8n_node("C")], {"C": {"main": [[to("B")]]}})
    outcome = await bench.take(more)
    assert outcome.conflicts == 2
    assert outcome.approval
    assert set((await bench.content(KEY)).nodes) == {"a", "c"}
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    content = await bench.content(KEY)
    assert (set(content.nodes), set(content.edges)) == ({"a", "b", "c"}, {"c.0--b.0"})


async def test_an_import_is_audited_and_undone_like_an_approved_change(bench: Workbench) -> None:
    before = await bench.exported(KEY)
    await bench.take(new(), file_name="small.json")
    after = await bench.exported(KEY)
    assert after != before
    entries = await bench.approvals.audit.entries(graph_key=KEY)
    assert [(e.facts["event"], e.facts["file"], e.facts["userId"]) for e in entries] == [
        ("imported", "small.json", "eve")
    ] * 2
    assert entries[0].facts["changes"]["nodesCreated"] == ["c"]
    (done,) = await bench.approvals.list(graph_key=KEY, by=bench.person)
    assert "small.json" in title(done, "en")
    undone = await bench.approvals.undo(KEY, by=bench.person)
    assert _content(await bench.exported(KEY)) == _content(before)
    await bench.approvals.undo(KEY, undone.id, by=bench.person)
    assert _content(await bench.exported(KEY)) == _content(after)
    assert (await bench.approvals.audit.verify()).is_sound


def _content(exported: bytes) -> bytes:
    return exported[exported.index(b'"graphKey"') :].partition(b'"graph":')[0]


async def test_an_imported_graph_says_when_it_was_made_and_changed() -> None:
    now = now_ms()
    bench = await imported()
    made = (await bench.content(KEY)).graph
    assert now <= made.created_time == made.last_updated_time <= now_ms()
    await bench.take(new())
    changed = (await bench.content(KEY)).graph
    assert changed.created_time == made.created_time
    assert made.last_updated_time <= changed.last_updated_time <= now_ms()
    dated = Workbench()
    await dated.take(two(createdAt="2024-01-01T00:00:00Z", updatedAt="2024-01-02T00:00:00Z"))
    graph = (await dated.content(KEY)).graph
    assert (graph.created_time, graph.last_updated_time) == (1_704_067_200_000, 1_704_153_600_000)


async def test_undo_of_an_import_leaves_sheets_that_people_made_since(bench: Workbench) -> None:
    await bench.take({**new(), "name": "Small flow", "description": "Another"})
    graph = (await bench.content(KEY)).graph
    assert graph.description == "Another"
    await put(bench, graph=graph.replace(sheets_list={**graph.sheets_list, "7": "mine"}))
    await bench.approvals.undo(KEY, by=bench.person)
    graph = (await bench.content(KEY)).graph
    assert (graph.description, graph.sheets_list) == (None, {"0": "main", "7": "mine"})


async def test_replace_takes_the_file_as_it_is_and_can_be_undone(bench: Workbench) -> None:
    await renamed(bench, "a", "Ours")
    await put(bench, Node(key="mine", graph_key=KEY, type="return"))
    outcome = await bench.take(two(), replaces=True)
    assert (outcome.action, outcome.taken, outcome.conflicts) == ("updated", 2, 0)
    content = await bench.content(KEY)
    assert (content.nodes["a"].data["name"], set(content.nodes)) == ("A", {"a", "b"})
    await bench.approvals.undo(KEY, by=bench.person)
    content = await bench.content(KEY)
    assert (content.nodes["a"].data["name"], set(content.nodes)) == ("Ours", {"a", "b", "mine"})


async def test_where_no_file_was_kept_all_differences_are_proposed(bench: Workbench) -> None:
    record = await bench.approvals.records.get("imports", KEY)
    await bench.approvals.records.delete("imports", KEY, expected_version=record.version or "")
    await renamed(bench, "a", "Ours")
    before = (await bench.content(KEY)).nodes
    outcome = await bench.take(n8n([n8n_node("A", parameters={"x": 1}), n8n_node("C")]))
    assert (await bench.content(KEY)).nodes == before
    assert (outcome.action, outcome.conflicts) == ("unchanged", 4)
    assert outcome.approval
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    nodes = (await bench.content(KEY)).nodes
    assert {key: node.data["name"] for key, node in nodes.items()} == {"a": "A", "c": "C"}
    assert (await bench.take(n8n([n8n_node("A", parameters={"x": 2}), n8n_node("C")]))).taken == 1


async def test_a_kept_file_of_a_graph_that_had_the_key_before_is_not_used(bench: Workbench) -> None:
    await bench.source.delete_graph(KEY)
    graph = read(two()).graph.replace(created_time=1)
    await bench.source.create_graph(graph)
    outcome = await bench.take(two())
    assert outcome.conflicts == 3


async def test_what_is_kept_of_a_file_holds_no_secret() -> None:
    token = "sk-" + "a1B2" * 8
    node = n8n_node("A", parameters={"password": "hush", "text": token}, notes=token)
    node["credentials"] = {
        "x": {"name": "Ours", "token": "hush"},
        "odd": ["hush"],
        "old": "By name",
    }
    bench = await imported(n8n([node], settings={"apiKey": "hush"}))
    kept = await _kept(bench)
    assert b"hush" not in kept
    assert token.encode() not in kept
    assert b"By name" in kept
    assert (await bench.take(n8n([{**node, "notes": "new"}]))).conflicts == 0


async def _kept(bench: Workbench) -> bytes:

    record: Record | None = await bench.approvals.records.get("imports", KEY)
    return zlib.decompress(base64.b64decode(record.data["source"]))


async def test_edge_that_a_person_drew_first_is_not_doubled() -> None:
    bench = await imported(n8n([n8n_node("A"), n8n_node("B")]))
    await put(bench, edges=[Edge(key="mine", graph_key=KEY, source="a", target="b")])
    assert (await bench.take(two())).conflicts == 0
    assert list((await bench.content(KEY)).edges) == ["mine"]


async def test_a_newer_import_closes_the_proposal_of_an_older_one_and_asks_again(
    bench: Workbench,
) -> None:
    await renamed(bench, "a", "Ours")
    graph = (await bench.content(KEY)).graph
    await put(bench, graph=graph.replace(name="Ours"))
    theirs = n8n([n8n_node("Theirs", id="id-of-A"), n8n_node("B")], name="Theirs")
    first = await bench.take(theirs, graph_key=KEY)
    newer = n8n(
        [n8n_node("Theirs", id="id-of-A"), n8n_node("B", parameters={"x": 1})], name="Theirs"
    )
    second = await bench.take(newer, graph_key=KEY)
    assert first.approval
    closed = await bench.approvals.get(first.approval, bench.person)
    assert closed.status == "stale"
    assert reason_text(closed.result, "fr").startswith("une version plus récente de son fichier")
    assert (second.taken, second.conflicts) == (1, 2)
    assert second.approval
    await bench.approvals.decide(second.approval, Approve(), bench.person)
    content = await bench.content(KEY)
    assert (content.nodes["a"].data["name"], content.graph.name) == ("Theirs", "Theirs")
    assert content.nodes["b"].data["parameters"] == {"x": 1}
    third = await bench.take(n8n([n8n_node("Theirs", id="id-of-A")], name="Theirs"), graph_key=KEY)
    assert (third.conflicts, third.approval) == (0, None)


async def test_what_is_said_of_an_import_is_french_on_demand(bench: Workbench) -> None:
    await renamed(bench, "a", "Ours")
    outcome = await bench.take(
        n8n([n8n_node("Theirs", id="id-of-A"), n8n_node("B")], {"A": {"main": [[to("gone")]]}})
    )
    assert outcome.remarks("fr") == [
        "laissé de côté, 1 arête : la source n’est pas dans le fichier (A → gone)",
        f"modifié ici et dans le fichier, laissé tel quel : 1 ; {outcome.approval} propose la version "
        "du fichier",
    ]
