"""Errors of live editing.

LiveError
├── EditRefused       the request of an editor cannot be applied to the present graph
├── EditNotFound      the history of the graph has no such edit
├── EditNotKept       the journal could not be written: nothing was changed
├── LiveElsewhere     another process has opened the graph for editing
├── LiveGraphClosed   this live graph is closed
└── EditingStopped    the server is stopping and opens no further graphs
"""

from __future__ import annotations

from graphrag.i18n import Language, LocalizedError


class LiveError(LocalizedError):
    """Base class: an edit or a live graph was refused. `reason`, in English, adds details to its
    text.
    """

    def __init__(self, *, reason: str = "", **facts: str) -> None:
        self.reason = reason
        super().__init__(reason=reason, **facts)

    def details(self, language: Language) -> str:  # noqa: ARG002 - the same in all languages
        return self.reason


class EditRefused(LiveError):
    """A request was refused and had no effect. `where` is its faulty part, as `instructions.2`."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where = where
        super().__init__(where=where, reason=reason)

    def details(self, language: Language) -> str:
        return "" if language == "en" else self.reason


class EditNotFound(LiveError): ...


class EditNotKept(LiveError): ...


class LiveElsewhere(LiveError): ...


class LiveGraphClosed(LiveError): ...


class EditingStopped(LiveError):
    """The server is stopping."""
