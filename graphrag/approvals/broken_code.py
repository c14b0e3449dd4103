"""Finds code in a proposed action that cannot be parsed, to warn people before they approve it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast, final

from graphrag.approvals.approval import Action
from tools.checks.checked_graph import data_of
from tools.checks.code_syntax import first_error
from tools.proposals import single_actions
from tools.write_tools import Snapshot

MAX_FOUND = 20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCode:
    """Code that cannot be parsed, of the node `key` or of `type/NAME`. `line` counts from 1."""

    key: str
    line: int


def broken_code(action: Action, snapshot: Snapshot) -> list[BrokenCode]:
    """Returns the code of an action that cannot be parsed, in its order, at most MAX_FOUND."""
    broken = (
        BrokenCode(key=key, line=line)
        for key, code, language in _codes(action, snapshot)
        if (line := first_error(code, language or "javascript")) is not None
    )
    return list(islice(broken, MAX_FOUND))


def _codes(action: Action, snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yields (key, code, language) of all code that is new."""
    for _, single in single_actions(action):
        effects = single.effects()
        if (new := effects.creates) and new.process:
            data = cast(dict[str, Any], new.data) if isinstance(new.data, dict) else {}
            yield new.key or "", new.process, str(data.get("language") or "")
        for key, changes in effects.updates.items():
            code = changes.get("process")
            if isinstance(code, str) and code:
                stored = data_of(snapshot.nodes.get(key))
                yield key, code, str(changes.get("data.language") or stored.get("language") or "")
        if (kind := effects.configures) and kind.process:
            yield f"type/{kind.type_key}", kind.process, ""
