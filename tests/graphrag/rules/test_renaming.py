"""Renaming a node carries along what refers to it by name: seen, applied and taken back as one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.diff import preview_lines
from datasources.base import Database
from datasources.sqlite import SqliteDatabase
from datasources.types import Graph, Mutation, Node
from graphrag.approvals import Approval, Approvals, Approve, ApproveEdited, Person
from graphrag.approvals.action_review import review
from graphrag.approvals.applied_change import inverse_mutation
from graphrag.importers.clipboard import with_free_names
from graphrag.importers.dispatch import import_workflow
from graphrag.importers.exchange import import_bytes
from graphrag.live import LiveGraphs
from graphrag.live.instruction_batch import apply_instructions
from tests.cli.conftest import n8n
from tests.graphrag.live.helpers import NEVER, instruct
from tests.support.agents import an_ask
from tests.support.data_files import needs_published, published
from tools.base import ToolContext
from tools.proposals import parse_action, to_document
from tools.references import (
    MAX_NAME_CHARS,
    by_name,
    mentions,
    name_of,
    references,
    renamed,
    texts_of,
)
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS, Snapshot, load_snapshot

FILES = published("workflows", "n8n-*.json")
WORKSPACE, GRAPH = "default", "flow"
EDITOR = Person("ed", "editor", WORKSPACE)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc",)), min_size=1, max_size=30)

# forms


FORMS = (
    "={{ $('Get it').item.json.id }}",
    '={{ $("Get it").first().json["a"] }}',
    "={{ $(`Get it`).all() }}",
    '={{ $node["Get it"].json.a }}',
    "={{ $node[ 'Get it' ].json.a }}",
    '={{ $items("Get it", 0, 0)[0].json }}',
    '={"a": "{{ $(\\"Get it\\").item.json.a }}"}',
    '={"a": "{\\"b\\": \\"{{ $node[\\\\\\"Get it\\\\\\"].json }}\\"}"}',
    "const a = $('Get it').all();\nreturn a;",
    "data = _('Get it').first().json\nmore = _node['Get it'].json",
)


@pytest.mark.parametrize("text", [*FORMS])
def test_every_form_of_a_reference_is_read_and_rewritten(text: str) -> None:
    assert {mention.name for mention in mentions(text)} == {"Get it"}
    assert {mention.name for mention in mentions(renamed(text, {"Get it": "Take"}))} == {"Take"}
    assert renamed(renamed(text, {"Get it": "Take"}), {"Take": "Get it"}) == text
    assert renamed(text, {"Other": "Take"}) == text


def graph_of(category: str) -> Graph:
    return Graph(key=GRAPH, workspace=WORKSPACE, name="Orders", category=category)


def named(key: str, name: str, text: str = "", type: str = "step") -> Node:
    data = {"name": name, "text": text}
    return Node(key=key, graph_key=GRAPH, type=type, data=data, process=text or None)


@pytest.mark.parametrize("text", [*FORMS])
def test_a_node_pasted_under_a_free_name_is_followed_in_every_form(text: str) -> None:
    here = [named("x", "Get it"), named("y", "Get it1")]
    got, used = with_free_names(
        graph_of("n8n"), [named("a", "Get it"), named("b", "Use", text)], here
    )
    wanted = renamed(text, {"Get it": "Get it2"})
    assert (got.data["name"], used.data, used.process) == (
        "Get it2",
        {"name": "Use", "text": wanted},
        wanted,
    )
    assert with_free_names(graph_of("default"), [got, used], [got]) == [got, used]


def test_names_of_a_paste_are_free_and_of_two_alike_the_first_is_meant() -> None:
    new = [
        named("a", "A"),
        named("b", "A"),
        named("c", "B9", "$('A') $('B9') $('C')"),
        named("n", "C", type="note"),
    ]
    here = [named("x", "B9"), named("y", "B1"), named("z", "C")]
    made = with_free_names(graph_of("n8n"), new, here)
    assert [node.data["name"] for node in made] == ["A", "A1", "B2", "C"]
    assert made[2].process == "$('A') $('B2') $('C')"
    again = with_free_names(graph_of("n8n"), made, [*here, *made])
    assert [node.data["name"] for node in again] == ["A2", "A3", "B3", "C"]
    assert again[2].process == "$('A2') $('B3') $('C')"


def test_a_dotted_reference_gets_brackets_where_the_new_name_needs_them() -> None:
    assert renamed("={{ $node.Webhook.json.a }}", {"Webhook": "Hook"}) == "={{ $node.Hook.json.a }}"
    assert (
        renamed("={{ $node.Webhook.json.a }}", {"Webhook": "My hook"})
        == "={{ $node['My hook'].json.a }}"
    )


@pytest.mark.parametrize(
    "text", ["foo_('A')", "$(document).ready('A')", "$('A", "$('A\")", "cost: $ ('A')"]
)
def test_what_is_no_reference_is_left_alone(text: str) -> None:
    assert renamed(text, {"A": "B"}) == text


@given(NAMES, NAMES, st.sampled_from("'\"`"), st.integers(0, 2))
def test_any_name_can_be_written_and_read_in_any_quotes(
    old: str, new: str, quote: str, level: int
) -> None:
    token = "\\" * (2**level - 1) + quote
    text = renamed(f"={{{{ $({token}x{token}).item }}}}", {"x": old})
    assert [mention.name for mention in mentions(text)] == [old]
    assert [mention.name for mention in mentions(renamed(text, {old: new}))] == [new]


@pytest.mark.parametrize(
    "piece", ["$('", "$(\\'", "$node[", "$node.", "$('\\", '$(\\\\\\"', "_(`", "$( ", "'$(\"x"]
)
def test_a_hostile_text_is_read_once(piece: str) -> None:
    """Quadratic reading of these would take hours; the suite's own time limit would end it."""
    for text in (piece * 10_000, piece + "x" * 300_000):
        assert all(len(mention.name) <= MAX_NAME_CHARS for mention in mentions(text))


# real workflows


def snapshot_of(file: Path) -> Snapshot:
    made = import_workflow(
        file.read_bytes(), file_name=file.name, workspace=WORKSPACE, graph_key=GRAPH
    )
    return Snapshot(
        graph=made.graph,
        nodes={node.key: node for node in made.nodes},
        edges={edge.key: edge for edge in made.edges},
        types={config.type: config for config in made.configs},
    )


def after(nodes: dict[str, Node], mutation: Mutation) -> dict[str, Node]:
    return nodes | {node.key: node for node in mutation.put_nodes}


@needs_published
@pytest.mark.parametrize(
    ("new", "step"),
    [
        ('It\'s "new" \\ `x`', 12),
        *(
            pytest.param(new, 1, marks=pytest.mark.slow)
            for new in ("Renamed", 'It\'s "new" \\ `x`')
        ),
    ],
)
@pytest.mark.slow
def test_no_rename_breaks_a_reference_of_a_real_workflow(new: str, step: int) -> None:
    renames = fields = 0
    for file in FILES[::step]:
        before = snapshot_of(file)
        names = by_name(before.graph, before.nodes.values())
        found = list(references(before.nodes.values(), names))
        for name in sorted({reference.mention.name for reference in found})[:3]:
            update = {"nodeKey": names[name].key, "changes": {"data.name": new}}
            done = review(parse_action({"type": "update_node", "payload": update}), before)
            left = after(dict(before.nodes), done.mutation)
            old = [(r.node_key, r.path) for r in found if r.mention.name == name]
            assert [(r.node_key, r.path) for r in references(left.values(), [new])] == old
            assert not list(references(left.values(), [name]))
            shown = {
                (change["key"], tuple(field["path"]))
                for change in done.preview["nodesChanged"]
                for field in change["fields"]
            }
            assert shown == {*old, (names[name].key, ("data", "name"))}
            restored = after(left, inverse_mutation(before, done.mutation))
            assert [n.to_document() for n in restored.values()] == [
                n.to_document() for n in before.nodes.values()
            ]
            renames = renames + 1
            fields = fields + len(set(old))
    assert renames * step > 250
    assert fields * step > 500


# from the proposal to its undo


def flow() -> dict[str, Any]:
    document = n8n("Get it", "Use it", "Tell them")
    used = {
        "url": "={{ $('Get it').item.json.id }}",
        "body": {
            "a.b": '={{ $node["Get it"].json.a }}',
            "items": [{"v": "={{ $('Get it').item }}"}],
        },
    }
    document["nodes"][1] |= {"type": "n8n-nodes-base.httpRequest", "parameters": used}
    document["nodes"][2] |= {
        "type": "n8n-nodes-base.code",
        "parameters": {"jsCode": "const a = $('Get it').all();\nreturn $('Use it').all();"},
    }
    document["nodes"].append(
        {
            "id": "note",
            "name": "Sticky Note",
            "type": "n8n-nodes-base.stickyNote",
            "typeVersion": 1,
            "position": [0, 300],
            "parameters": {"content": "Get it\n$('Get it') is explained here"},
        }
    )
    return document


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with SqliteDatabase(tmp_path / "graphs.db") as opened:
        raw = json.dumps(flow()).encode()
        await import_bytes(
            approvals_of(opened), raw, EDITOR, file_name="flow.json", graph_key=GRAPH
        )
        yield opened


def approvals_of(database: Database) -> Approvals:
    return Approvals(database.source(WORKSPACE), database.records(WORKSPACE))


async def propose(database: Database, kind: str, **payload: Any) -> Approval:
    return await approvals_of(database).propose(
        {"type": kind, "payload": payload}, an_ask(GRAPH, EDITOR, reason="because")
    )


async def rename(database: Database, new: str = "Take it") -> Approval:
    return await propose(database, "update_node", nodeKey="get-it", changes={"data.name": new})


async def nodes_of(database: Database) -> dict[str, Node]:
    return {node.key: node for node in await database.source(WORKSPACE).get_nodes(GRAPH)}


def said(nodes: dict[str, Node], name: str) -> int:
    return len(list(references(nodes.values(), [name])))


async def test_a_rename_shows_applies_and_takes_back_every_reference_as_one(
    database: Database,
) -> None:
    before = await nodes_of(database)
    approval = await rename(database)
    assert to_document(approval.action)["type"] == "update_node"
    changed = {one["key"] for one in approval.preview["nodesChanged"]}
    assert changed == {"get-it", "use-it", "tell-them"}
    applied = await approvals_of(database).decide(approval.id, Approve(), EDITOR)
    assert applied.status == "applied"
    after_it = await nodes_of(database)
    assert (said(after_it, "Get it"), said(after_it, "Take it"), said(after_it, "Use it")) == (
        0,
        4,
        1,
    )
    assert (
        after_it["sticky-note" if "sticky-note" in after_it else "get-it-2"].data
        == before["sticky-note" if "sticky-note" in before else "get-it-2"].data
    )
    await approvals_of(database).undo(GRAPH, approval.id, by=EDITOR)
    assert {k: n.to_document() for k, n in (await nodes_of(database)).items()} == {
        k: n.to_document() for k, n in before.items()
    }


@pytest.mark.parametrize("path", ["data.parameters.url", "process"])
async def test_a_rename_is_stale_once_a_reference_was_changed_or_added(
    database: Database, path: str
) -> None:
    approval = await rename(database)
    other = "use-it" if path != "process" else "tell-them"
    text = "={{ $('Get it').item.json.other + $('Use it').item }}"
    elsewhere = await propose(database, "update_node", nodeKey=other, changes={path: text})
    assert (
        await approvals_of(database).decide(elsewhere.id, Approve(), EDITOR)
    ).status == "applied"
    decided = await approvals_of(database).decide(approval.id, Approve(), EDITOR)
    assert decided.status == "stale"
    assert said(await nodes_of(database), "Take it") == 0


async def test_a_name_that_a_person_edits_carries_the_references_along(database: Database) -> None:
    approval = await rename(database)
    edited = {"nodeKey": "get-it", "changes": {"data.name": "Fetch"}}
    decision = ApproveEdited(parse_action({"type": "update_node", "payload": edited}))
    assert (await approvals_of(database).decide(approval.id, decision, EDITOR)).status == "applied"
    assert said(await nodes_of(database), "Fetch") == 4


async def test_a_rename_on_the_canvas_is_one_edit_with_its_references_for_all(
    database: Database,
) -> None:
    async with LiveGraphs(database.source, database.records, options=NEVER) as graphs:
        live = await graphs.open(WORKSPACE, GRAPH)
        other = live.join("bob", "0")
        before = {node.key: node.to_document() for node in live.nodes}
        asked = instruct("get-it", 1, ["data", "name"], v="Take it")
        applied = await live.edit("ann", None, apply_instructions, [asked])
        nodes = {node.key: node for node in live.nodes}
        assert (said(nodes, "Get it"), said(nodes, "Take it")) == (0, 4)
        assert {one["nodeId"] for one in applied.message["instructions"]} == {
            "get-it",
            "use-it",
            "tell-them",
        }
        heard = await other.next()
        assert orjson.loads(heard.text)["instructions"] == applied.message["instructions"]
        await live.undo("ann")
        assert {node.key: node.to_document() for node in live.nodes} == before


async def test_a_name_that_another_node_has_takes_no_reference_along(database: Database) -> None:
    approval = await rename(database, "Tell them")
    assert {one["key"] for one in approval.preview["nodesChanged"]} == {"get-it"}
    assert {one["to"] for one in approval.preview["referencesBroken"]} == {"Get it"}


async def test_two_nodes_that_swap_their_names_swap_their_references(database: Database) -> None:
    swap = [
        {
            "type": "update_node",
            "payload": {"nodeKey": "get-it", "changes": {"data.name": "Use it"}},
        },
        {
            "type": "update_node",
            "payload": {"nodeKey": "use-it", "changes": {"data.name": "Get it"}},
        },
    ]
    approval = await propose(database, "batch", actions=swap)
    await approvals_of(database).decide(approval.id, Approve(), EDITOR)
    nodes = await nodes_of(database)
    assert (said(nodes, "Use it"), said(nodes, "Get it")) == (4, 1)


async def test_deleting_a_node_warns_preview_and_model_of_what_refers_to_it(
    database: Database,
) -> None:
    approval = await propose(database, "delete_node", nodeKey="get-it")
    broken = {(one["key"], ".".join(one["path"])) for one in approval.preview["referencesBroken"]}
    assert ("use-it", "data.parameters.url") in broken
    assert ("tell-them", "process") in broken
    assert any(
        "refers to “Get it”, which goes" in text for text, _ in preview_lines(approval.preview)
    )
    context = ToolContext(source=database.source(WORKSPACE), graph_key=GRAPH, role="editor")
    found = await ToolBox(WRITE_TOOLS).run(
        "propose_delete_node", {"nodeKey": "get-it", "reason": "x"}, context
    )
    assert (
        "WARNING: 2 nodes refer by name to what goes and would fail: tell-them, use-it"
        in found.text
    )
    assert (await approvals_of(database).decide(approval.id, Approve(), EDITOR)).status == "applied"


async def test_of_a_large_graph_every_referring_node_is_found(database: Database) -> None:
    payload = {"nodeKey": "get-it", "changes": {"data.name": "Take it"}}
    action = parse_action({"type": "update_node", "payload": payload})
    source = database.source(WORKSPACE)
    few = await load_snapshot(source, GRAPH, action, whole_graph_nodes=1)
    whole = review(action, await load_snapshot(source, GRAPH, action))
    assert review(action, few).preview == whole.preview


async def test_a_graph_that_is_not_of_n8n_keeps_its_texts(database: Database) -> None:
    source = database.source(WORKSPACE)
    graph = await source.get_graph(GRAPH)
    await source.apply(
        Mutation(graph_key=GRAPH, graph=graph.replace(metadata={}, category="default"))
    )
    approval = await rename(database)
    assert {one["key"] for one in approval.preview["nodesChanged"]} == {"get-it"}


def test_no_note_is_called_or_rewritten() -> None:
    made = import_workflow(
        json.dumps(flow()).encode(), file_name="f.json", workspace=WORKSPACE, graph_key=GRAPH
    )
    notes = [node for node in made.nodes if node.type == "note"]
    assert [name_of(node) for node in notes] == ["Get it"]
    assert not [text for node in notes for text in texts_of(node)]
    assert by_name(made.graph, made.nodes)["Get it"].type != "note"
