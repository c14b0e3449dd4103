"""Errors of live editing.

LiveError
├── EditRefused       what an editor sent cannot be done on the graph as it is
├── EditNotFound      history holds no such edit of the graph
├── EditNotKept       the journal could not be written: nothing was done
├── LiveElsewhere     another process holds the graph open for editing
├── LiveGraphClosed   this live graph is closed
└── EditingStopped    the server stops, and opens no graph any more
"""

from __future__ import annotations

from graphrag.i18n import Language, LocalizedError


class LiveError(LocalizedError):
    """Base of why an edit or a live graph is refused. `reason`, in English, is what its
    text leaves out.
    """

    def __init__(self, *, reason: str = "", **facts: str) -> None:
        self.reason = reason
        super().__init__(reason=reason, **facts)

    def details(self, language: Language) -> str:  # noqa: ARG002 - the same in all languages
        return self.reason


class EditRefused(LiveError):
    """`where` is the part of the request at fault, as `instructions.2`; then nothing
    of it was done.
    """

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
    """The server stops."""
