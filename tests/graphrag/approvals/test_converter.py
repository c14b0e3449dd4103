"""The converter: what each action becomes, the same for the same keys, batches merged."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from datasources.types import Edge, Graph, Node, NodeTypeConfig
from graphrag.approvals import Approve, outcome_text, title
from graphrag.approvals.converter import ActionConversion, convert_action
from tests.contracts.samples import a_type
from tests.graphrag.approvals.helpers import EDITOR, Bench, a_bench
from tests.tools.proposing import GRAPH, WORKSPACE, actions, make_graph
from tools.proposals import parse_action
from tools.write_tools import Snapshot, find_problems, load_snapshot


def counted() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"ai_1700000000000_{next(numbers):06d}"


def new(number: int) -> str:
    return f"ai_1700000000000_{number:06d}"


def action(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "payload": payload}


def batch(*parts: dict[str, Any]) -> dict[str, Any]:
    return action("batch", actions=list(parts))


def converted(
    raw: dict[str, Any], *known: Node | Edge | NodeTypeConfig, sheet: str = "0"
) -> ActionConversion:
    """Convert an action on a graph `g` of one sheet that holds these."""
    snapshot = Snapshot(
        graph=Graph(key="g", name="g", workspace=WORKSPACE, sheets_list={sheet: "main"}),
        nodes={one.key: one for one in known if isinstance(one, Node)},
        edges={one.key: one for one in known if isinstance(one, Edge)},
        types={one.type: one for one in known if isinstance(one, NodeTypeConfig)},
    )
    return convert_action(parse_action(raw), snapshot, counted())


def test_a_move_sets_both_coordinates_and_animates() -> None:
    result = converted(action("move_node", nodeKey="a", posX=1, posY=2.5), sheet="3")
    assert result.instructions == [
        {"i": {"o": 1, "p": ["posX"], "v": 1}, "sheetId": "3", "nodeId": "a", "animatePos": True},
        {"i": {"o": 1, "p": ["posY"], "v": 2.5}, "sheetId": "3", "nodeId": "a", "animatePos": True},
    ]
    assert result.sheet_id == "3"


def test_an_update_sets_each_path_and_renders() -> None:
    changes = {"data.a.b": None, "process": "x"}
    result = converted(action("update_node", nodeKey="a", changes=changes))
    rest = {"sheetId": "0", "nodeId": "a", "triggerHtmlRender": True}
    assert result.instructions == [
        {"i": {"o": 1, "p": ["data", "a", "b"], "v": None}, **rest},
        {"i": {"o": 1, "p": ["process"], "v": "x"}, **rest},
    ]


def test_with_the_document_a_missing_parent_is_set_with_its_value() -> None:
    node = Node(key="a", graph_key="g", type="t", sheet="2", data={"here": {}, "none": None})
    changes = {"data.here.x": 1, "data.none.y.z": 2, "data.none.y.w": 3}
    result = converted(action("update_node", nodeKey="a", changes=changes), node)
    assert [(sent["i"]["p"], sent["i"]["v"]) for sent in result.instructions] == [
        (["data", "here", "x"], 1),
        (["data", "none"], {"y": {"z": 2}}),
        (["data", "none", "y", "w"], 3),
    ]
    assert {sent["sheetId"] for sent in result.instructions} == {"2"}


def test_a_new_node_starts_as_its_type_says() -> None:
    config = a_type("task")
    template = {
        "type": "task",
        "size": {"width": 30, "height": 40},
        "handles": {"L": {"point": []}},
    }
    config = config.replace(version=3, node=template)
    raw = action("create_node", typeKey="task", posX=5, posY=6, data={"name": "n"})
    result = converted(raw, config, sheet="1")
    assert result.to_document()["nodesToCreate"] == [
        {
            "_key": new(1),
            "graphKey": "g",
            "type": "task",
            "typeVersion": 3,
            "sheet": "1",
            "posX": 5,
            "posY": 6,
            "size": {"width": 30, "height": 40},
            "handles": {"L": {"point": []}},
            "data": {"name": "n"},
        }
    ]


def test_a_new_node_grows_the_note_of_its_neighbour_the_same_each_time() -> None:
    note = Node(key="n", graph_key="g", type="note", size={"width": 300, "height": 200})  # type: ignore[arg-type]
    step = Node(key="a", graph_key="g", type="t", pos_x=50, pos_y=50)
    edge = {"direction": "in", "handleId": "0", "targetNodeKey": "a", "targetHandleId": "0"}
    raw = action("create_node_with_edges", typeKey="t", edges=[edge])
    first = converted(raw, note, step)
    (grown, *_), (made,) = first.instructions, first.new_nodes.values()
    assert (grown["nodeId"], grown["i"]["p"]) == ("n", ["size", "width"])
    assert grown["i"]["v"] > made.pos_x + made.size.width
    again = converted(first.chosen[0], note, step)
    assert (again.instructions, again.new_nodes) == (first.instructions, first.new_nodes)


def test_a_batch_is_merged_and_its_own_names_become_keys() -> None:
    edge = {
        "direction": "in",
        "handleId": "0",
        "targetNodeKey": "old",
        "targetHandleId": "1",
        "label": "l",
    }
    raw = batch(
        action("create_edge", sourceKey="$b", sourceHandle="0", targetKey="$a", targetHandle="0"),
        action("delete_node", nodeKey="x"),
        batch(
            action("create_node", typeKey="task", key="$a", sheet="2"),
            action("delete_edge", edgeKey="e"),
            action("move_node", nodeKey="$b", posX=1, posY=2),
        ),
        action("create_node_with_edges", typeKey="task", key="$b", edges=[edge]),
        action("reorganize_layout", nodeKeys=["old", "$a", "old"]),
    )
    result = converted(raw)
    assert list(result.new_nodes) == [new(1), new(2)]
    ends = [(edge.source, edge.target, edge.label, edge.sheet) for edge in result.new_edges]
    assert ends == [("old", new(2), "l", "2"), (new(2), new(1), None, "2")]
    assert list(result.gone) == ["x"]
    assert list(result.cut) == ["e"]
    assert list(result.arranged) == ["old", new(1)]
    assert {sent["nodeId"] for sent in result.instructions} == {new(1), new(2)}
    assert {node.sheet for node in result.new_nodes.values()} == {"2"}
    assert result.to_document()["sheetId"] == "2"


def test_a_configured_type_keeps_what_is_not_given() -> None:
    old = a_type("task", description="kept", unknown_field=1)
    raw = action(
        "configure_node_type", mode="update", typeKey="task", process="x", border={"width": 4}
    )
    (config,) = converted(raw, old).configs
    before = old.to_document()
    after = config.to_document()
    assert after.pop("border")["width"] == 4
    assert after.pop("version") == 2
    assert after.pop("node") == {**before.pop("node"), "process": "x"}
    assert after == before


@given(actions)
def test_the_same_action_with_the_same_keys_converts_the_same(raw: dict[str, Any]) -> None:
    async def read() -> Snapshot:
        source = (await make_graph()).source(WORKSPACE)
        return await load_snapshot(source, GRAPH, parse_action(raw))

    found = asyncio.run(read())
    if find_problems(parse_action(raw), found):
        return
    given_nodes = {key: node.to_json() for key, node in found.nodes.items()}

    def convert() -> dict[str, Any]:
        return convert_action(parse_action(raw), found, counted()).to_document()

    assert convert() == convert()
    assert {key: node.to_json() for key, node in found.nodes.items()} == given_nodes


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("update_node", {"changes": {"data.name": "New\nname"}}, "rename “{b}” to “New name”"),
    (
        "update_node",
        {"changes": {"data.name": "New", "process": "next('0', 1)"}},
        "rename “{b}” to “New” and change its code",
    ),
    ("update_node", {"changes": {"data.level": 5}}, "change level of “{b}”"),
    ("delete_node", {}, "delete “{b}”"),
    ("move_node", {"posX": 1, "posY": 2}, "move “{b}” to 1, 2"),
    ("delete_edge", {"edgeKey": "bd"}, "remove the connection {b} → {d}"),
    ("create_node", {"typeKey": "task", "data": {"name": "Fresh"}}, "create “Fresh” ({task})"),
    (
        "batch",
        {"actions": [{"type": "delete_node", "payload": {"nodeKey": key}} for key in "bd"]},
        "2 changes: delete “{b}”; delete “{d}”",
    ),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), [*CASES])
async def test_a_proposal_is_called_by_what_people_see(
    kind: str, payload: dict[str, Any], expected: str
) -> None:
    bench = await a_bench()
    await bench.rename("b", "The boss")
    await bench.rename("d", "The desk")
    node = {"nodeKey": "b"} if kind in ("update_node", "delete_node", "move_node") else {}
    approval = await bench.propose(kind, **node, **payload)
    types = {config.type: config.display_name for config in await bench.source.get_node_configs()}
    assert title(approval, "en") == expected.format(b="The boss", d="The desk", task=types["task"])
    if kind == "delete_node":
        assert title(approval, "fr") == "supprimer « The boss »"


async def test_a_person_reads_names_and_a_model_keys_too(bench: Bench) -> None:
    proposed = await bench.propose("create_node", typeKey="task", data={"name": "Fresh"})
    done = await bench.approvals().decide(proposed.id, Approve(), EDITOR)
    (key,) = done.result.keys["nodesCreated"]
    assert key in outcome_text(done)
    for text in (
        outcome_text(done, "en", to_person=True),
        outcome_text(done, "fr", to_person=True),
    ):
        assert key not in text
        assert "Fresh" in text


async def test_names_stay_as_they_were_when_it_was_proposed(bench: Bench) -> None:
    await bench.rename("b", "The boss")
    proposed = await bench.propose("update_node", nodeKey="b", changes={"data.level": 5})
    await bench.rename("b", "Somebody else")
    stored = await bench.approvals().get(proposed.id, EDITOR)
    assert title(stored, "en") == "change level of “The boss”"


async def test_what_was_stored_without_labels_is_called_by_its_keys(bench: Bench) -> None:
    proposed = await bench.propose("delete_node", nodeKey="b")
    assert title(proposed.changed(labels={}), "en") == "delete “b”"
