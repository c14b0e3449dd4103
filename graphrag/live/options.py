"""Options of live graphs, the status of their saving, and what watches it."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag.answer_body import AnswerBody


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """Units: milliseconds. `unsaved`, `unsaved_bytes`: changes, and bytes of the journal, after
    which a save does not wait for its time. `history_bytes` of a graph's history are stored.

    `pending` are the requests that may wait for the journal, `queued` the messages that may wait
    for one editor.
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
    """Called after each save and each write to a journal; may not raise. Units: seconds.
    It does nothing.
    """

    def saved(self, seconds: float, *, ok: bool) -> None: ...

    def journalled(self, changes: int, seconds: float, *, ok: bool) -> None: ...


class SaveStatus(AnswerBody):
    """Where a live graph stands. Units: milliseconds since 1970. `error` names why the
    last save failed.

    `revision` is the stored one: a client that knows it has missed nothing but unsaved edits.
    """

    revision: int
    last_save_time: int
    has_unsaved_changes: bool
    auto_save_enabled: bool
    error: str | None = None
    next_attempt: int | None = None
