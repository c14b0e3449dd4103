"""Importing a workflow again takes what only the file changed, and leaves what people made."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from datasources.base import Record
from datasources.types import Edge, HandleGroup, HandlePoint, Mutation, Node, NodeTypeConfig, TypeTemplate
from graphrag.approvals import Approve, reason_text, title
from graphrag.importers.align import aligned
from graphrag.leases import now_ms
from tests.graphrag.importers.helpers import WORKSPACE, Workbench, n8n, n8n_node, read, to

KEY = "small-flow-small"


def _two(**fields: Any) -> dict[str, Any]:
    return n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B")]]}}, **fields)


async def _imported(document: Any = None) -> Workbench:
    bench = Workbench()
    await bench.take(document or _two())
    return bench


async def _put(bench: Workbench, *nodes: Node, edges: Any = (), **more: Any) -> None:
    await bench.source.apply(Mutation(graph_key=KEY, put_nodes=nodes, put_edges=edges, **more))


async def _renamed(bench: Workbench, key: str, name: str, **changes: Any) -> None:
    node = (await bench.content(KEY)).nodes[key]
    await _put(bench, node.replace(data={**node.data, "name": name}, **changes))


async def test_same_file_targets_the_same_graph_and_changes_nothing() -> None:
    bench = await _imported()
    again = await bench.take(_two())
    assert (again.graph_key, again.action, again.remarks()) == (KEY, "unchanged", [])
    assert (await bench.source.get_graph(KEY)).revision == 1


async def test_renamed_node_keeps_its_key_by_its_id() -> None:
    bench = await _imported()
    await bench.take(n8n([n8n_node("Alpha", id="id-of-A"), n8n_node("B")], {"Alpha": {"main": [[to("B")]]}}))
    content = await bench.content(KEY)
    assert [(key, node.data["name"]) for key, node in content.nodes.items()] == [("a", "Alpha"), ("b", "B")]
    assert list(content.edges) == ["a.0--b.0"]


@pytest.mark.parametrize(
    "nodes",
    [
        [n8n_node("A", id="new"), n8n_node("B")],
        [n8n_node("B", id="id-of-A"), n8n_node("A", id="id-of-B")],
        [n8n_node("B"), n8n_node("A")],
    ],
    ids=["another id", "names swapped", "order swapped"],
)
async def test_a_node_is_known_by_its_id_else_by_its_name(nodes: list[Any]) -> None:
    content = await (await _imported()).content(KEY)
    ids = {node["id"]: key for node in nodes for key in "ab" if node["id"] in ("new", f"id-of-{key.upper()}")}
    keys = {(n.model_extra or {})["origin"]["id"]: n.key for n in aligned(read(n8n(nodes)), content).nodes}
    assert keys == {**ids, **({"new": "a"} if "new" in ids else {})}


async def test_duplicates_of_one_name_keep_their_keys() -> None:
    bench = await _imported(n8n([n8n_node("A", id=None, position=[i, 0]) for i in range(12)]))
    before = await bench.content(KEY)
    outcome = await bench.take(n8n([n8n_node("A", id=None, position=[i, 5]) for i in range(12)]))
    after = await bench.content(KEY)
    assert outcome.taken == 12
    assert {k: (n.pos_x, 5) for k, n in before.nodes.items()} == {
        k: (n.pos_x, n.pos_y) for k, n in after.nodes.items()
    }


async def test_vanished_nodes_and_edges_are_deleted_and_new_ones_added() -> None:
    bench = await _imported()
    await bench.take(n8n([n8n_node("A"), n8n_node("C")], {"A": {"main": [[to("C")]]}}))
    content = await bench.content(KEY)
    assert (list(content.nodes), list(content.edges)) == (["a", "c"], ["a.0--c.0"])


async def test_what_people_added_stays() -> None:
    bench = await _imported()
    extra = HandlePoint(id="mine", type="out")
    own = HandleGroup(point=(HandlePoint(id="0", type="in"),))
    before = await bench.content(KEY)
    a = before.nodes["a"]
    await _put(
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
    bench = await _imported()
    renamed = await bench.approvals.propose(
        graph_key=KEY,
        thread_id="t",
        turn=1,
        tool_call_id="c",
        action={"type": "update_node", "payload": {"nodeKey": "a", "changes": {"data.name": "Fetch"}}},
        asker=bench.person,
        model="m",
    )
    await bench.approvals.decide(renamed.id, Approve(), bench.person)
    b = (await bench.content(KEY)).nodes["b"]
    await _put(bench, b.replace(pos_x=900))
    outcome = await bench.take(_new())
    content = await bench.content(KEY)
    assert content.nodes["a"].data == {"name": "Fetch", "parameters": {"x": 1}}
    assert (content.nodes["b"].pos_x, set(content.nodes)) == (900, {"a", "b", "c"})
    assert (outcome.action, outcome.kept, outcome.conflicts, outcome.approval) == ("updated", 2, 0, None)
    assert outcome.remarks() == ["kept 2 nodes and edges that people changed"]
    undo = await bench.approvals.undo(KEY, renamed.id, by=bench.person)
    assert undo.status == "applied"
    assert (await bench.content(KEY)).nodes["a"].data == {"name": "A", "parameters": {"x": 1}}


def _new() -> Any:
    return n8n(
        [n8n_node("A", parameters={"x": 1}), n8n_node("B"), n8n_node("C")], {"A": {"main": [[to("B")]]}}
    )


async def test_what_both_changed_stays_and_the_files_version_is_proposed() -> None:
    bench = await _imported()
    await _renamed(bench, "a", "Ours")
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
    bench = await _imported(n8n([n8n_node("A"), n8n_node("B"), n8n_node("C")]))
    await _renamed(bench, "b", "Ours")
    await _put(bench, edges=[Edge(key="e", graph_key=KEY, source="a", target="c")])
    outcome = await bench.take(n8n([n8n_node("A")]))
    content = await bench.content(KEY)
    assert (set(content.nodes), set(content.edges), outcome.conflicts) == ({"a", "b", "c"}, {"e"}, 2)
    assert outcome.approval
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert set((await bench.content(KEY)).nodes) == {"a"}


async def test_a_node_that_people_deleted_comes_back_only_if_they_say_so() -> None:
    bench = await _imported()
    await bench.source.apply(Mutation(graph_key=KEY, delete_nodes=["b"]))
    assert (await bench.take(_new())).conflicts == 0
    assert set((await bench.content(KEY)).nodes) == {"a", "c"}
    more = n8n([n8n_node("A"), n8n_node("B"), n8n_node("C")], {"C": {"main": [[to("B")]]}})
    outcome = await bench.take(more)
    assert outcome.conflicts == 2
    assert outcome.approval
    assert set((await bench.content(KEY)).nodes) == {"a", "c"}
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    content = await bench.content(KEY)
    assert (set(content.nodes), set(content.edges)) == ({"a", "b", "c"}, {"c.0--b.0"})


async def test_an_import_is_audited_and_undone_like_an_approved_change() -> None:
    bench = await _imported()
    before = await bench.exported(KEY)
    await bench.take(_new(), file_name="small.json")
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
    bench = await _imported()
    made = (await bench.content(KEY)).graph
    assert now <= made.created_time == made.last_updated_time <= now_ms()
    await bench.take(_new())
    changed = (await bench.content(KEY)).graph
    assert changed.created_time == made.created_time
    assert made.last_updated_time <= changed.last_updated_time <= now_ms()
    dated = Workbench()
    await dated.take(_two(createdAt="2024-01-01T00:00:00Z", updatedAt="2024-01-02T00:00:00Z"))
    graph = (await dated.content(KEY)).graph
    assert (graph.created_time, graph.last_updated_time) == (1_704_067_200_000, 1_704_153_600_000)


async def test_undo_of_an_import_leaves_sheets_that_people_made_since() -> None:
    bench = await _imported()
    await bench.take({**_new(), "name": "Small flow", "description": "Another"})
    graph = (await bench.content(KEY)).graph
    assert graph.description == "Another"
    await _put(bench, graph=graph.replace(sheets_list={**graph.sheets_list, "7": "mine"}))
    await bench.approvals.undo(KEY, by=bench.person)
    graph = (await bench.content(KEY)).graph
    assert (graph.description, graph.sheets_list) == (None, {"0": "main", "7": "mine"})


async def test_replace_takes_the_file_as_it_is_and_can_be_undone() -> None:
    bench = await _imported()
    await _renamed(bench, "a", "Ours")
    await _put(bench, Node(key="mine", graph_key=KEY, type="return"))
    outcome = await bench.take(_two(), replaces=True)
    assert (outcome.action, outcome.taken, outcome.conflicts) == ("updated", 2, 0)
    content = await bench.content(KEY)
    assert (content.nodes["a"].data["name"], set(content.nodes)) == ("A", {"a", "b"})
    await bench.approvals.undo(KEY, by=bench.person)
    content = await bench.content(KEY)
    assert (content.nodes["a"].data["name"], set(content.nodes)) == ("Ours", {"a", "b", "mine"})


async def test_where_no_file_was_kept_all_differences_are_proposed() -> None:
    bench = await _imported()
    record = await bench.approvals.records.get("imports", KEY)
    assert record is not None
    await bench.approvals.records.delete("imports", KEY, expected_version=record.version or "")
    await _renamed(bench, "a", "Ours")
    before = (await bench.content(KEY)).nodes
    outcome = await bench.take(n8n([n8n_node("A", parameters={"x": 1}), n8n_node("C")]))
    assert (await bench.content(KEY)).nodes == before
    assert (outcome.action, outcome.conflicts) == ("unchanged", 4)
    assert outcome.approval
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    nodes = (await bench.content(KEY)).nodes
    assert {key: node.data["name"] for key, node in nodes.items()} == {"a": "A", "c": "C"}
    assert (await bench.take(n8n([n8n_node("A", parameters={"x": 2}), n8n_node("C")]))).taken == 1


async def test_a_kept_file_of_a_graph_that_had_the_key_before_is_not_used() -> None:
    bench = await _imported()
    await bench.source.delete_graph(KEY)
    graph = read(_two()).graph.replace(created_time=1)
    await bench.source.create_graph(graph)
    outcome = await bench.take(_two())
    assert outcome.conflicts == 3


async def test_what_is_kept_of_a_file_holds_no_secret() -> None:
    token = "sk-" + "a1B2" * 8
    node = n8n_node("A", parameters={"password": "hush", "text": token}, notes=token)
    node["credentials"] = {"x": {"name": "Ours", "token": "hush"}, "odd": ["hush"], "old": "By name"}
    bench = await _imported(n8n([node], settings={"apiKey": "hush"}))
    kept = await _kept(bench)
    assert b"hush" not in kept
    assert token.encode() not in kept
    assert b"By name" in kept
    assert (await bench.take(n8n([{**node, "notes": "new"}]))).conflicts == 0


async def _kept(bench: Workbench) -> bytes:

    record: Record | None = await bench.approvals.records.get("imports", KEY)
    assert record is not None
    return zlib.decompress(base64.b64decode(record.data["source"]))


async def test_edge_that_a_person_drew_first_is_not_doubled() -> None:
    bench = await _imported(n8n([n8n_node("A"), n8n_node("B")]))
    await _put(bench, edges=[Edge(key="mine", graph_key=KEY, source="a", target="b")])
    assert (await bench.take(_two())).conflicts == 0
    assert list((await bench.content(KEY)).edges) == ["mine"]


async def test_types_of_two_workflows_are_united_and_never_shrink() -> None:
    bench = Workbench()
    first = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[], [to("B")]]}})
    second = n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[to("B", index=3)]]}})
    for name, document in (("first", first), ("second", second), ("first", _two())):
        await bench.take(document, file_name=name)
    (config,) = await bench.source.get_node_configs()
    points = {(p.type, p.id) for group in config.node.handles.values() for p in group.point}
    assert points == {("in", "0"), ("in", "3"), ("out", "0"), ("out", "1")}


async def test_what_people_changed_in_a_type_stays() -> None:
    bench = await _imported()
    (config,) = await bench.source.get_node_configs()
    await bench.source.put_node_config(config.replace(display_name="Ours", description="What we say"))
    await bench.take(n8n([n8n_node("A"), n8n_node("B")], {"A": {"main": [[], [to("B")]]}}))
    (after,) = await bench.source.get_node_configs()
    assert (after.display_name, after.description) == ("Ours", "What we say")
    assert len(after.node.handles["R"].point) == 2


async def test_type_that_a_person_made_is_left_alone() -> None:
    bench = Workbench()
    own = NodeTypeConfig(
        key="filter", workspace=WORKSPACE, display_name="Ours", node=TypeTemplate(type="filter")
    )
    await bench.source.put_node_config(own)
    flow = [{"id": "1", "type": "filter", "z": "t", "name": "F", "x": 1, "y": 1, "wires": [[]]}]
    outcomes = [await bench.take(flow, file_name="f.json") for _ in range(2)]
    assert [outcome.action for outcome in outcomes] == ["created", "unchanged"]
    assert "a node type of the name filter was there before" in outcomes[0].remarks()[-1]
    assert await bench.source.get_node_configs() == [own]


async def test_sheets_keep_their_ids_when_tabs_move() -> None:
    def flow(*tabs: str) -> list[Any]:
        made = [{"id": tab, "type": "tab", "label": tab.upper()} for tab in tabs]
        nodes = [
            {"id": f"n-{tab}", "type": "debug", "z": tab, "name": tab, "x": 1, "y": 1, "wires": []}
            for tab in tabs
        ]
        return [*made, *nodes]

    bench = Workbench()
    key = (await bench.take(flow("p", "q"), graph_key="flow")).graph_key
    await bench.take(flow("r", "q"), graph_key="flow")
    content = await bench.content(key)
    assert {node.key: node.sheet for node in content.nodes.values()} == {"q": "1", "r": "2"}
    assert content.graph.sheets_list == {"1": "Q", "2": "R"}


def test_workflows_of_one_name_do_not_share_a_graph() -> None:
    same = {"name": "My workflow"}
    keys = {
        read(_two(**same), file_name="one.json").graph.key,
        read(_two(**same), file_name="two.json").graph.key,
        read(_two(**same, id="w1")).graph.key,
        read(_two(**same, id="w2")).graph.key,
    }
    assert len(keys) == 4


def test_workflow_with_an_id_is_known_by_any_file_name() -> None:
    first = read(_two(id="w1"), file_name="one.json")
    second = read(_two(id="w1"), file_name="folder/two (3).json")
    assert first.graph == second.graph


def _flow(tab: str, subflow: str) -> list[Any]:
    return [
        {"id": "t", "type": "tab", "label": tab},
        {"id": "s", "type": "subflow", "name": subflow},
        {"id": "n", "type": "subflow:s", "z": "t", "name": "use", "x": 1, "y": 1, "wires": []},
    ]


async def test_fields_of_the_graph_that_both_changed_are_proposed_approved_and_undone() -> None:
    bench = await _imported()
    graph = (await bench.content(KEY)).graph
    await _put(bench, graph=graph.replace(name="Ours", description="What we say"))
    outcome = await bench.take(_two(name="Theirs"), graph_key=KEY)
    assert (await bench.content(KEY)).graph.name == "Ours"
    assert outcome.conflicts == 1
    assert outcome.approval
    waiting = await bench.approvals.get(outcome.approval, bench.person)
    (change,) = waiting.preview["graphChanged"]
    assert [(f["path"], f["before"], f["after"]) for f in change["fields"]] == [(["name"], "Ours", "Theirs")]
    decided = await bench.approvals.decide(waiting.id, Approve(), bench.person)
    assert decided.status == "applied"
    graph = (await bench.content(KEY)).graph
    assert (graph.name, graph.description) == ("Theirs", "What we say")
    await bench.approvals.undo(KEY, waiting.id, by=bench.person)
    assert (await bench.content(KEY)).graph.name == "Ours"


async def test_a_field_of_the_graph_that_the_file_lost_goes_when_people_say_so() -> None:
    bench = await _imported(_two(description="first"))
    await _put(bench, graph=(await bench.content(KEY)).graph.replace(description="Ours"))
    outcome = await bench.take(_two())
    assert outcome.approval
    assert (await bench.content(KEY)).graph.description == "Ours"
    await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert (await bench.content(KEY)).graph.description is None


async def test_names_of_sheets_and_types_that_both_changed_are_proposed() -> None:
    bench = Workbench()
    await bench.take(_flow("Tab", "Sub"), graph_key="f")
    graph = (await bench.content("f")).graph
    sheets = {**graph.sheets_list, "0": "Our tab", "9": "mine"}
    await bench.source.apply(Mutation(graph_key="f", graph=graph.replace(sheets_list=sheets)))
    (config,) = await bench.source.get_node_configs()
    await bench.source.put_node_config(config.replace(display_name="Our subflow"))
    outcome = await bench.take(_flow("Their tab", "Their sub"), graph_key="f")
    content = await bench.content("f")
    assert content.graph.sheets_list["0"] == "Our tab"
    assert content.types["subflow:s"].display_name == "Our subflow"
    assert outcome.approval
    await bench.source.apply(
        Mutation(
            graph_key="f", graph=content.graph.replace(sheets_list={**content.graph.sheets_list, "8": "x"})
        )
    )
    decided = await bench.approvals.decide(outcome.approval, Approve(), bench.person)
    assert decided.status == "applied"
    content = await bench.content("f")
    assert content.graph.sheets_list == {"0": "Their tab", "1": "subflow Their sub", "8": "x", "9": "mine"}
    assert content.types["subflow:s"].display_name == "Subflow: Their sub"


async def test_a_newer_import_closes_the_proposal_of_an_older_one_and_asks_again() -> None:
    bench = await _imported()
    await _renamed(bench, "a", "Ours")
    graph = (await bench.content(KEY)).graph
    await _put(bench, graph=graph.replace(name="Ours"))
    theirs = n8n([n8n_node("Theirs", id="id-of-A"), n8n_node("B")], name="Theirs")
    first = await bench.take(theirs, graph_key=KEY)
    newer = n8n([n8n_node("Theirs", id="id-of-A"), n8n_node("B", parameters={"x": 1})], name="Theirs")
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


async def test_what_is_said_of_an_import_is_french_on_demand() -> None:
    bench = await _imported()
    await _renamed(bench, "a", "Ours")
    outcome = await bench.take(
        n8n([n8n_node("Theirs", id="id-of-A"), n8n_node("B")], {"A": {"main": [[to("gone")]]}})
    )
    assert outcome.remarks("fr") == [
        "laissé de côté, 1 arête : la source n’est pas dans le fichier (A → gone)",
        f"modifié ici et dans le fichier, laissé tel quel : 1 ; {outcome.approval} propose la version "
        "du fichier",
    ]
