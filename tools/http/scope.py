"""The values that templates, expressions and JSONPaths in a document can read.

`Names` are the root names allowed in one part of a document. `ConversationValues` are the values
of one conversation; a `Scope` is a snapshot of them for one rendering.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from tools.http.problems import BadText

NAMESPACES = frozenset(("pre", "args", "ctx", "session", "agent", "secret"))
SPECIALS = frozenset(
    (
        "caller_phone",
        "called_phone",
        "call_sid",
        "call_id",
        "channel",
        "now_iso",
        "today",
        "call_duration_sec",
    )
)
ENDINGS = frozenset(("outcome", "end_reason", "transcript", "transcript_summary"))
RESPONSE = "$"

Names = frozenset[str]
"""Root names allowed in one part of a document; `$` is the response."""

ValuePath = tuple[str | int, ...]
"""The path of a value, as `("ctx", "items", 0, "name")`."""

Read = tuple[ValuePath, int]
"""The path of a value that a text reads, and its column in the text."""

SESSION_REQUEST: Names = SPECIALS | {"agent", "base_url"}
CHECK: Names = SESSION_REQUEST
INSTRUCTIONS: Names = SESSION_REQUEST | {"ctx"}
GREETING: Names = INSTRUCTIONS | {"session"}
LIFECYCLE: Names = GREETING
TRANSFER: Names = LIFECYCLE | {"transcript", "transcript_summary"}
AT_END: Names = LIFECYCLE | ENDINGS
TOOL: Names = GREETING | {"args"}

READ_BESIDE: Mapping[str, Names] = {
    "headers": frozenset(("secret",)),
    "block_if": frozenset((RESPONSE,)),
    "fail_if": frozenset((RESPONSE, "status")),
    "success_if": frozenset((RESPONSE, "status")),
    "on_error": frozenset(("error", "status")),
}
"""Additional names that some fields may read."""

KNOWN = NAMESPACES | SPECIALS | ENDINGS | {"base_url", "error", "status", RESPONSE}
"""Root names with a defined meaning. Every other root name is looked up in `pre`."""

_SUMMARY_ENTRIES = 6


def with_steps(names: Names, extracted: Iterable[str]) -> Names:
    """Returns the names allowed after steps that extract `extracted`: `pre.x` or just `x`."""
    return names | {"pre"} | (frozenset(extracted) - KNOWN)


def unreadable(reads: Iterable[Read], names: Names) -> BadText | None:
    """Returns the error for the first value that is not in `names`; None if all are allowed."""
    for path, column in reads:
        word = path[0]
        if word == "secret" and word not in names:
            what = "a secret cannot be read here"
            return BadText("secret_not_allowed_here", what, allowed="headers", column=column)
        if word not in names:
            what = f"{word!r} cannot be read here"
            allowed = ", ".join(sorted(names))
            return BadText("unknown_namespace", what, allowed=allowed, column=column)
    return None


MAX_VISITED = 30_000


class Visits:
    """The number of values that all JSONPaths of one tool call may visit, and their deadline.

    `until` is in seconds of the monotonic clock.
    """

    __slots__ = ("left", "until")

    def __init__(self, until: float = math.inf, *, most: int = MAX_VISITED) -> None:
        self.left = most
        self.until = until

    @property
    def are_spent(self) -> bool:
        """Whether a path was stopped before its end."""
        return self.left < 0

    def pay(self, steps: int) -> bool:
        """Counts `steps` visits. Returns False if the limit or the deadline has passed."""
        if self.left >= 0 and time.monotonic() >= self.until:
            self.left = 0
        self.left -= steps
        return self.left >= 0


class Scope:
    """Values by root name. A callable is called when its value is read.

    `visits`: the limit shared by all paths of a call; if None, each path has its own limit.
    """

    __slots__ = ("roots", "visits")

    def __init__(self, roots: Mapping[str, Any], visits: Visits | None = None) -> None:
        self.roots = roots
        self.visits = visits

    def lookup(self, path: Sequence[str | int]) -> Any:
        """Returns the value at `path`; None if there is none. Never raises."""
        first = path[0]
        if first in KNOWN:
            value: Any = self.roots.get(first)
            if callable(value):
                value = value()
        else:
            value = self.roots.get("pre")
            if not isinstance(value, dict):
                return None
            value = cast(dict[str, Any], value).get(cast(str, first))
        for segment in path[1:]:
            if isinstance(value, dict):
                value = cast(dict[str, Any], value).get(
                    segment if isinstance(segment, str) else str(segment)
                )
            elif isinstance(value, list) and isinstance(segment, int):
                items = cast(list[Any], value)
                value = items[segment] if 0 <= segment < len(items) else None
            else:
                return None
        return value


@dataclass(slots=True, kw_only=True)
class ConversationValues:
    """The values of one conversation. Times are milliseconds since 1970; flags are
    booleans in `ctx`.

    `agent`: id, name, type, language, timezone. `speakers`: names of the roles in
    `transcript_summary`.
    """

    agent: Mapping[str, Any]
    base_url: str | None = None
    channel: str = "chat"
    caller_phone: str | None = None
    called_phone: str | None = None
    call_sid: str | None = None
    call_id: str = ""
    timezone: str = "UTC"
    language: str = "en"
    ctx: dict[str, Any] = field(default_factory=dict[str, Any])
    session: Any = None
    started_time: int = 0
    ended_time: int | None = None
    outcome: str | None = None
    end_reason: str | None = None
    transcript: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    speakers: Mapping[str, str] = field(
        default_factory=lambda: {"user": "Caller", "assistant": "Assistant"}
    )

    def set_transcript(self, transcript: list[dict[str, Any]]) -> None:
        """Makes a transcript available to templates, also as `ctx.transcript`."""
        self.transcript = transcript
        self.ctx["transcript"] = transcript

    def scope(
        self,
        now_ms: int,
        *,
        args: Mapping[str, Any] | None = None,
        pre: Mapping[str, Any] | None = None,
        error: str | None = None,
        status: int | None = None,
        response: Any = None,
        secrets: Mapping[str, str] | None = None,
        visits: Visits | None = None,
    ) -> Scope:
        """Returns the values at the time `now_ms`. `secrets` are only for request headers."""
        return Scope(
            visits=visits,
            roots={
                **{name: getattr(self, name) for name in _FIELDS_READ},
                "agent": dict(self.agent),
                "args": args,
                "pre": pre,
                "secret": secrets,
                "error": error,
                "status": status,
                RESPONSE: response,
                "now_iso": lambda: iso_time(now_ms),
                "today": lambda: _date(now_ms, self.timezone),
                "call_duration_sec": lambda: self.duration_s(now_ms),
                "transcript_summary": self._summary,
            },
        )

    def duration_s(self, now_ms: int) -> int:
        """Returns the duration in whole seconds, until now if the conversation has not ended."""
        end = now_ms if self.ended_time is None else self.ended_time
        return max(0, end - self.started_time) // 1000

    def _summary(self) -> str:
        last = self.transcript[-_SUMMARY_ENTRIES:]
        return "\n".join(
            f"{self.speakers.get(str(entry.get('role')), entry.get('role'))}: "
            + " ".join(str(entry.get("content", "")).split())
            for entry in last
        )


_FIELDS_READ = KNOWN & {field.name for field in fields(ConversationValues)}


def iso_time(time_ms: int) -> str:
    """Returns a time in UTC with seconds, as `2025-01-15T19:30:00Z`."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _date(time_ms: int, timezone: str) -> str:
    return datetime.fromtimestamp(time_ms // 1000, ZoneInfo(timezone)).date().isoformat()
