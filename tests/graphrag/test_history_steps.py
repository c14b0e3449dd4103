"""What the history says of an edit: the field with the value before and after."""

from __future__ import annotations

from typing import Any

import pytest

from datasources.instructions import Instruction, Op
from datasources.types import Node
from graphrag.live.edit_history import HISTORY_LIMITS, PastEdit
from graphrag.live.history_entries import update_entry


def step_of(path: tuple[str, ...], before: Any, after: Any) -> dict[str, Any]:
    node = Node(key="act", graph_key="g", type="t")
    entry = update_entry(
        node,
        {},
        Instruction(o=Op.SET, p=path, v=after),
        [Instruction(o=Op.SET, p=path, v=before)],
    )
    edit = PastEdit(id="1", at=1, user_id="u", is_saved=True, entries=(entry,))
    [step] = edit.steps()
    return step


@pytest.mark.parametrize(("before", "after"), [("Act", "Act v2"), (3, 4.5), (True, False)])
def test_a_short_value_is_said_before_and_after(before: Any, after: Any) -> None:
    step = step_of(("data", "name"), before, after)
    assert (step["field"], step["from"], step["to"]) == ("data.name", before, after)


LONG = "x" * (HISTORY_LIMITS.value_chars + 1)


@pytest.mark.parametrize(("before", "after"), [("a", LONG), (LONG, "a"), ("a\nb", "a"), ({}, "a")])
def test_long_and_nested_values_are_left_out(before: Any, after: Any) -> None:
    assert "from" not in step_of(("data", "code"), before, after)


def test_places_are_left_out() -> None:
    assert "to" not in step_of(("posX",), 1, 2)
