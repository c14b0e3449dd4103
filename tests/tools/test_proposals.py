"""Actions: strict when read, one hash whatever the order, few words from their fields alone."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.each_row import each_row
from tests.tools.proposing import actions
from tools.proposals import (
    MalformedProposal,
    canonical_hash,
    canonical_json,
    describe,
    parse_action,
    single_actions,
    to_document,
)

DELETE: dict[str, Any] = {"type": "delete_node", "payload": {"nodeKey": "a"}}


def nested(depth: int) -> dict[str, Any]:
    action = DELETE
    for _ in range(depth):
        action = {"type": "batch", "payload": {"actions": [action]}}
    return action


@each_row(
    "raw, where",
    [
        (None, ""),
        ({"type": "drop_database", "payload": {}}, ""),
        ({"type": "delete_node"}, "payload"),
        ({**DELETE, "extra": 1}, "extra"),
        ({"type": "delete_node", "payload": {"nodeKey": ""}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": 7}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": "\ud800"}}, "payload.nodeKey"),
        ({"type": "delete_node", "payload": {"nodeKey": "a", "force": True}}, "payload.force"),
        ({"type": "move_node", "payload": {"nodeKey": "a", "posX": "1", "posY": 1}}, "payload.posX"),
        ({"type": "move_node", "payload": {"nodeKey": "a", "posX": 1e308, "posY": 1}}, "payload.posX"),
        ({"type": "move_node", "payload": {"nodeKey": "a", "posX": float("nan"), "posY": 1}}, "payload.posX"),
        ({"type": "update_node", "payload": {"nodeKey": "a"}}, "payload"),
        (
            {"type": "update_node", "payload": {"nodeKey": "a", "changes": {"data": {"__proto__": 1}}}},
            "payload.changes.data",
        ),
        ({"type": "create_node_with_edges", "payload": {"typeKey": "t", "edges": []}}, "payload.edges"),
        ({"type": "batch", "payload": {"actions": []}}, "payload.actions"),
        ({"type": "batch", "payload": {"actions": [DELETE] * 201}}, "payload.actions"),
        (nested(2_000), ""),
    ],
)
def test_what_is_no_action_is_refused_with_its_place(raw: Any, where: str) -> None:
    with pytest.raises(MalformedProposal) as caught:
        parse_action(raw)
    assert caught.value.where.startswith(where)
    assert caught.value.reason


@given(actions, st.randoms(use_true_random=False))
def test_an_action_survives_storage_and_its_hash_does_not_depend_on_order(
    raw: dict[str, Any], chance: random.Random
) -> None:
    action = parse_action(raw)
    document = to_document(action)
    again = parse_action(json.loads(json.dumps(document)))
    assert again == action
    assert (
        canonical_hash(again) == canonical_hash(action) == canonical_hash(parse_action(shuffled(raw, chance)))
    )


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        pairs = [(key, shuffled(item, chance)) for key, item in value.items()]
        chance.shuffle(pairs)
        return dict(pairs)
    return [shuffled(item, chance) for item in value] if isinstance(value, list) else value


def test_another_value_has_another_hash_and_a_whole_float_is_the_whole_number() -> None:
    def moved(x: float) -> str:
        return canonical_hash(
            parse_action({"type": "move_node", "payload": {"nodeKey": "a", "posX": x, "posY": 0}})
        )

    assert moved(1) == moved(1.0)
    assert moved(1) != moved(1.5)
    assert canonical_json({"b": [1.0, True, None], "a": "é"}) == '{"a":"é","b":[1,true,null]}'
    assert canonical_json(True) != canonical_json(1)


@given(actions)
def test_every_action_is_described(raw: dict[str, Any]) -> None:
    assert describe(parse_action(raw)).strip()


def test_batches_are_opened_with_the_place_of_each_part() -> None:
    raw = {"type": "batch", "payload": {"actions": [DELETE, nested(1)]}}
    assert [where for where, _ in single_actions(parse_action(raw))] == ["actions.0", "actions.1.actions.0"]
    assert describe(parse_action(raw)) == "2 changes: delete node a; delete node a"
    assert [where for where, _ in single_actions(parse_action(DELETE))] == [""]
