"""The last calls of tools in this process: what ran, what was refused and why; no arguments, no results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

KEPT = 200

Outcome = Literal[
    "ok",
    "error",
    "unchanged",
    "reused",
    "duplicate",
    "repeated",
    "cut",
    "over_limit",
    "not_alone",
    "interrupted",
    "timeout",
    "broke",
]
"""What became of a call. `unchanged`: the same error as before; `reused`: answered from memory; `not_alone`:
it, or one beside it, has to be the only call of its step; `interrupted`: an act that was begun before."""

NOT_RUN: frozenset[Outcome] = frozenset(
    ("duplicate", "repeated", "cut", "over_limit", "not_alone", "interrupted")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One call. Units: `time` in milliseconds since 1970, `ms` as it took. `tool` is what the model wrote.

    `error` is the code of an error. `workspace` says who may see it.
    """

    workspace: str
    tool: str
    thread_id: str
    turn: int
    round: int
    outcome: Outcome
    time: int
    ms: float = 0.0
    error: str | None = None

    @property
    def refused(self) -> str | None:
        """Why the call was not run; None where it was."""
        if self.outcome in NOT_RUN:
            return self.outcome
        return self.error if self.error in _NOT_TAKEN else None


_NOT_TAKEN = frozenset(("unknown_tool", "not_permitted", "malformed_arguments", "invalid_arguments"))


class CallLog:
    """Remembers the last KEPT calls. `on_call` is given each and may not raise."""

    def __init__(self) -> None:
        self.on_call: Callable[[CallRecord], None] | None = None
        self._calls: deque[CallRecord] = deque(maxlen=KEPT)

    def add(self, call: CallRecord) -> None:
        self._calls.appendleft(call)
        if self.on_call is not None:
            self.on_call(call)

    def of(self, workspaces: Collection[str]) -> list[CallRecord]:
        """Return the calls of some workspaces, newest first."""
        return [call for call in self._calls if call.workspace in workspaces]
