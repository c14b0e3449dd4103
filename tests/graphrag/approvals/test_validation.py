"""Who must be asked: any level that demands any class of an action, and no level relaxes another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphrag.approvals.validation import CLASSES, FLOOR, Demand, Levels, classes_named, classes_of, required
from tests.support.each_row import each_row
from tools.proposals import parse_action

EXAMPLES: list[tuple[dict[str, Any], set[str]]] = [
    ({"type": "move_node", "payload": {"nodeKey": "a", "posX": 1, "posY": 2}}, {"layout"}),
    ({"type": "reorganize_layout", "payload": {"nodeKeys": ["a"]}}, {"layout"}),
    ({"type": "delete_node", "payload": {"nodeKey": "a"}}, {"delete"}),
    ({"type": "delete_edge", "payload": {"edgeKey": "e"}}, {"delete"}),
    ({"type": "configure_node_type", "payload": {"mode": "create", "typeKey": "t"}}, {"types"}),
    ({"type": "create_node", "payload": {"typeKey": "t"}}, {"structure"}),
    ({"type": "create_node", "payload": {"typeKey": "t", "process": "x"}}, {"structure", "code"}),
    ({"type": "update_node", "payload": {"nodeKey": "a", "changes": {"data.name": "n"}}}, {"content"}),
    ({"type": "update_node", "payload": {"nodeKey": "a", "changes": {"process": "n"}}}, {"code"}),
    (
        {"type": "update_node", "payload": {"nodeKey": "a", "changes": {"posX": 1, "handles.R": {}}}},
        {"layout", "structure"},
    ),
    (
        {"type": "update_node", "payload": {"nodeKey": "a", "patches": [{"search": "a", "replace": "b"}]}},
        {"code"},
    ),
]
ACTIONS = [parse_action(raw) for raw, _ in EXAMPLES]
SOME = st.frozensets(st.sampled_from(sorted(CLASSES)))


@each_row("raw, classes", EXAMPLES)
def test_an_action_has_the_classes_of_what_it_changes(raw: dict[str, Any], classes: set[str]) -> None:
    action: Any = parse_action(raw)
    assert classes_of(action) == classes


def test_with_the_usual_settings_every_change_needs_a_person() -> None:
    for action in ACTIONS:
        assert [one.level for one in required(action, Levels(node_types={}), lambda _: ())] == ["application"]


@given(st.sampled_from(ACTIONS), SOME, SOME, SOME, SOME, st.booleans(), st.booleans(), st.booleans())
def test_a_person_is_asked_when_any_level_demands_any_class(
    action: Any,
    application: Any,
    workspace: Any,
    graph: Any,
    kind: Any,
    session: bool,
    request: bool,
    alone: bool,
) -> None:
    levels = Levels(
        application=application,
        workspace=workspace,
        graph=graph,
        node_types={"t": kind},
        session=session,
        request=request,
        unattended=alone,
    )
    demanded = application | workspace | graph | kind | (CLASSES if session or request else set())
    demanded |= FLOOR if alone else set()
    reasons = required(action, levels, lambda _: ("t",))
    assert bool(reasons) == bool(classes_of(action) & demanded)
    assert all(set(reason.classes) <= classes_of(action) for reason in reasons)


def test_each_part_of_a_batch_keeps_its_own_reasons() -> None:
    batch = parse_action({"type": "batch", "payload": {"actions": [EXAMPLES[0][0], EXAMPLES[2][0]]}})
    levels = Levels(application=frozenset(), graph=frozenset({"delete"}), node_types={}, unattended=True)
    assert required(batch, levels, lambda _: ()) == [
        Demand(level="graph", classes=("delete",), where="actions.1"),
        Demand(level="floor", classes=("delete",), where="actions.1"),
    ]


def test_a_stored_list_of_another_form_demands_nothing() -> None:
    assert classes_named(["delete", "all", 7]) == {"delete"}
    assert classes_named("delete") == classes_named(None) == frozenset()
