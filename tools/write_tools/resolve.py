"""Resolves an action against the graph: patches become code, names of types and sheets keys."""

from __future__ import annotations

from tools.actions.snapshot import Snapshot
from tools.base import Problem
from tools.proposals import Action, Batch, BatchAction, single_actions
from tools.write_tools.checks import find_problems


def resolve_action(action: Action, snapshot: Snapshot) -> tuple[Action, list[Problem]]:
    """Returns the action with nothing left to look up and nested batches merged, and all that is
    wrong with it.
    """
    problems: list[Problem] = []
    singles = [
        single.resolved(where, snapshot, problems) for where, single in single_actions(action)
    ]
    resolved: Action = singles[0]
    if isinstance(action, BatchAction):
        resolved = BatchAction(payload=Batch.model_construct(actions=singles))
    return resolved, [*problems, *find_problems(resolved, snapshot)]
