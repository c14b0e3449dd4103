"""What an action names is read from its schema: a field that holds a key cannot be forgotten."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tools.action_keys import keys_named, marks_of, with_node_keys
from tools.proposal_parts import Part
from tools.proposals import ACTIONS, parse_action, to_document


def _parts(annotation: Any) -> Iterator[type[Part]]:
    """Yield every kind of part that stands somewhere in an action."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if issubclass(annotation, Part):
            yield annotation
        for field in annotation.model_fields.values():
            yield from _parts(field.annotation)
    for inner in get_args(annotation):
        yield from _parts(inner)


def test_every_field_of_an_action_that_is_called_a_key_is_marked_as_one() -> None:
    marks = {
        f"{part.__name__}.{name}": m
        for kind in ACTIONS
        for part in set(_parts(kind))
        for name, m in marks_of(part)
    }
    keys = {name for name in marks if re.search(r"[._]keys?$", name)}
    assert len(keys) > 10
    assert {name for name in keys if not marks[name]} == set()


PLACE = {"posX": 1, "posY": 2, "width": 300, "height": 200}
EDGE = {"direction": "in", "handleId": "0", "targetNodeKey": "b", "targetHandleId": "0", "key": "e"}
CREATED = {
    "type": "create_node_with_edges",
    "payload": {
        "typeKey": "task",
        "key": "new",
        "frames": [{"nodeKey": "frame", **PLACE}],
        "edges": [EDGE],
    },
}
ARRANGED = {
    "type": "reorganize_layout",
    "payload": {"nodeKeys": ["a"], "positions": [{"nodeKey": "around", **PLACE}]},
}
RETYPED = {"type": "update_node", "payload": {"nodeKey": "a", "changes": {"type": "log"}}}
FILE = {
    "type": "import_file",
    "payload": {
        "file": "f.json",
        "putNodes": [{"_key": "a", "type": "task"}],
        "putEdges": [{"_key": "e", "source": "b", "target": "c"}],
        "deleteNodes": ["d"],
        "deleteEdges": ["f"],
    },
}


@pytest.mark.parametrize(
    ("action", "nodes", "edges", "types"),
    [
        (CREATED, {"new", "frame", "b"}, {"e"}, {"task"}),
        (ARRANGED, {"a", "around"}, set[str](), set[str]()),
        (RETYPED, {"a"}, set[str](), {"log"}),
        (FILE, {"a", "b", "c", "d"}, {"e", "f"}, {"task"}),
        (
            {"type": "batch", "payload": {"actions": [CREATED, ARRANGED]}},
            {"new", "frame", "b", "a", "around"},
            {"e"},
            {"task"},
        ),
    ],
)
def test_an_action_names_all_that_its_parts_name(
    action: dict[str, Any], nodes: set[str], edges: set[str], types: set[str]
) -> None:
    parsed = parse_action(action)
    found = {kind: keys_named(parsed, kind) for kind in ("node", "edge", "type")}
    assert found == {"node": nodes, "edge": edges, "type": types}


def test_other_keys_take_the_place_of_those_of_nodes_that_exist_and_of_nothing_else() -> None:
    keys = {"b": "B", "frame": "F", "new": "N", "e": "E", "task": "T", "a": "A", "around": "O"}
    batch = parse_action({"type": "batch", "payload": {"actions": [CREATED, ARRANGED]}})
    created, arranged = to_document(with_node_keys(batch, keys))["payload"]["actions"]
    assert created["payload"]["frames"][0]["nodeKey"] == "F"
    assert created["payload"]["edges"][0] == {**EDGE, "targetNodeKey": "B"}
    assert (created["payload"]["key"], created["payload"]["typeKey"]) == ("new", "task")
    assert arranged["payload"]["nodeKeys"] == ["A"]
    assert arranged["payload"]["positions"][0]["nodeKey"] == "O"
    assert with_node_keys(batch, {"other": "x"}) is batch
