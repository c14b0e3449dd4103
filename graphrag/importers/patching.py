"""Sets fields of a file's entries, and counts changes that a format cannot say; shared by all writers."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from graphrag.importers.json_values import Json
from graphrag.importers.report import Tally
from graphrag.importers.workflow_format import ChangedNode
from tools.checks.checked_graph import data_of


def set_or_remove(fields: Json, name: str, value: Any) -> None:
    """Set a field; None removes it."""
    if value is None or value == {}:
        fields.pop(name, None)
    else:
        fields[name] = value


def note_unsaid(one: ChangedNode, said: Set[str], tally: Tally) -> None:
    """Count the fields of a node that changed and that the format has no place for."""
    now, was = data_of(one.node), data_of(one.before)
    for name in sorted((now.keys() | was.keys()) - said):
        if now.get(name) != was.get(name):
            tally.drop("field", "the format has no place for it", f"{now.get('name', one.node.key)}: {name}")
