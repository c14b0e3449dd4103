"""Finds code in a proposed action that cannot be parsed, so that people know before
they approve it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast, final

from graphrag.approvals.approval import Action
from tools.checks.checked_graph import data_of
from tools.checks.code_syntax import first_error
from tools.proposals import CREATES, ConfigureNodeTypeAction, UpdateNodeAction, single_actions
from tools.write_tools import Snapshot

MAX_FOUND = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCode:
    """Code that cannot be parsed, of the node `key` or of `type/NAME`; `line` counts from 1."""

    key: str
    line: int


def broken_code(action: Action, snapshot: Snapshot) -> list[BrokenCode]:
    """Returns the code of an action that cannot be parsed, in its order, at most MAX_FOUND."""
    found = (
        BrokenCode(key=key, line=line)
        for key, code, language in _codes(action, snapshot)
        if (line := first_error(code, language or "javascript")) is not None
    )
    return list(islice(found, MAX_FOUND))


def _codes(action: Action, snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yields (key, code, language) of all code that is new."""
    for _, single in single_actions(action):
        if isinstance(single, CREATES):
            new = single.payload
            data = cast(dict[str, Any], new.data) if isinstance(new.data, dict) else {}
            if new.process:
                yield new.key or "", new.process, str(data.get("language") or "")
        elif isinstance(single, UpdateNodeAction):
            key = single.payload.node_key
            changes = single.payload.changes
            code = changes.get("process")
            if isinstance(code, str) and code:
                language = changes.get("data.language") or data_of(snapshot.nodes.get(key)).get(
                    "language"
                )
                yield key, code, str(language or "")
        elif isinstance(single, ConfigureNodeTypeAction) and single.payload.process:
            yield f"type/{single.payload.type_key}", single.payload.process, ""
