"""Options of live graphs, the status of their saves, and the observer of both."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag.answer_body import AnswerBody


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """Options of live graphs. Units: `_ms` milliseconds, `_bytes` bytes.

    At `unsaved` changes, or `unsaved_bytes` of journal, a graph is saved before `autosave_ms`.
    `history_bytes` limit the stored history of a graph. `pending` requests may wait for the
    journal, `queued` messages for one editor. A lease is held for `held_ms`.
    """

    autosave_ms: int = 30_000
    retry_ms: int = 500
    idle_ms: int = 60_000
    tick_ms: int = 1_000
    held_ms: int = 15_000
    unsaved: int = 2_000
    unsaved_bytes: int = 16_000_000
    history_bytes: int = 64_000_000
    pending: int = 2_000
    queued: int = 2_000


class LiveWatch:
    """Observes saves and writes to journals; may not raise. This one does nothing. Units:
    seconds.
    """

    def saved(self, seconds: float, *, ok: bool) -> None: ...

    def journalled(self, changes: int, seconds: float, *, ok: bool) -> None: ...


class SaveStatus(AnswerBody):
    """The save status of a live graph. Units: milliseconds since 1970. `error` is the reason of the
    last failed save.

    `revision` is the stored one: a client that knows it has missed nothing but unsaved edits.
    """

    revision: int
    last_save_time: int
    has_unsaved_changes: bool
    auto_save_enabled: bool
    error: str | None = None
    next_attempt: int | None = None
