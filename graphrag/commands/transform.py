"""Makes data commands executable: which resource is read how, with relative times resolved; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphrag.commands.enrichments import CommandType, DataCommand
from graphrag.sessions.periods import Calendar, PeriodError, resolve

STATS_MS = 30 * 24 * 3_600_000
EXAMPLES = 3
LISTED = 100
PAST_LIMIT = 100

ROWS: Mapping[CommandType, tuple[tuple[str, str], ...]] = {
    "SCHEMA": (("types", "get"),),
    "TYPE_CONFIG": (("types", "get"),),
    "TYPES": (("types", "list"),),
    "GRAPHS": (("graphs", "list"),),
    "GRAPH": (("graphs", "get"),),
    "SHEET": (("graphs", "get"),),
    "NODES": (("nodes", "list"),),
    "TYPE_USES": (("nodes", "list"),),
    "TYPE_EXAMPLES": (("nodes", "list"),),
    "NODE": (("nodes", "get"),),
    "NODE_DATA": (("nodes", "get"),),
    "NODE_LINKS": (("edges", "get"),),
    "EDGE": (("edges", "get"),),
    "NODE_STATS": (("nodes", "stats"),),
    "HISTORY": (("history", "get"),),
    "APP_STATE": (("graphs", "list"), ("types", "list")),
    "CURRENT_DATETIME": (("clock", "now"),),
}
"""The resource and operation of each command; APP_STATE is two."""

_MORE: Mapping[CommandType, Mapping[str, Any]] = {
    "NODES": {"limit": LISTED},
    "TYPE_USES": {"limit": LISTED},
    "TYPE_EXAMPLES": {"limit": EXAMPLES, "whole": True},
    "NODE_DATA": {"field": "data"},
    "HISTORY": {"limit": PAST_LIMIT},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutableCommand:
    """What is run. `params` are local keys, instants in milliseconds since 1970 and limits.

    With a `fault` it cannot be run: its period is none.
    """

    command_id: str
    type: CommandType
    resource: str
    operation: str
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fault: str = ""


def transform(given: Sequence[DataCommand], reference: int, calendar: Calendar) -> list[ExecutableCommand]:
    """Return what is run for data commands; periods count from the reference, milliseconds since 1970."""
    made: list[ExecutableCommand] = []
    for command in given:
        params, fault = _resolved(command, reference, calendar)
        made += [
            ExecutableCommand(
                command_id=command.id,
                type=command.type,
                resource=resource,
                operation=operation,
                params=params,
                fault=fault,
            )
            for resource, operation in ROWS[command.type]
        ]
    return made


def _resolved(command: DataCommand, reference: int, calendar: Calendar) -> tuple[dict[str, Any], str]:
    params: dict[str, Any] = {**command.params, **_MORE.get(command.type, {})}
    if command.type == "NODE_STATS":
        return {**params, "from": reference - STATS_MS, "to": reference}, ""
    if "from" not in command.params:
        return params, ""
    try:
        span = resolve(command.params["from"], command.params["to"], reference, calendar)
    except PeriodError as exc:
        return params, str(exc)
    return {**params, "from": span.start, "to": span.end}, ""
