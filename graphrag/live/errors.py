"""Errors of live editing.

LiveError
├── EditRefused       what an editor sent cannot be done on the graph as it is
├── EditNotFound      history holds no such edit of the graph
├── EditNotKept       the journal could not be written: nothing was done
├── LiveElsewhere     another process holds the graph open for editing
└── LiveGraphClosed   this live graph is closed
"""

from __future__ import annotations


class LiveError(Exception):
    """Base of why an edit or a live graph is refused."""


class EditRefused(LiveError):
    """`where` is the part of the request at fault, as `instructions.2`; then nothing of it was done."""

    def __init__(self, *, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"{where}: {reason}")


class EditNotFound(LiveError):
    def __init__(self, *, graph_key: str, edit_id: str) -> None:
        self.graph_key, self.edit_id = graph_key, edit_id
        super().__init__(f"graph {graph_key!r} has no edit {edit_id!r} in its history")


class EditNotKept(LiveError):
    def __init__(self, *, graph_key: str, reason: str) -> None:
        self.graph_key, self.reason = graph_key, reason
        super().__init__(f"the change of graph {graph_key!r} could not be kept ({reason}); try again")


class LiveElsewhere(LiveError):
    def __init__(self, *, graph_key: str) -> None:
        self.graph_key = graph_key
        super().__init__(f"graph {graph_key!r} is being edited through another server; try again in a moment")


class LiveGraphClosed(LiveError):
    def __init__(self, *, graph_key: str, reason: str) -> None:
        self.graph_key, self.reason = graph_key, reason
        super().__init__(f"graph {graph_key!r} is no longer open here ({reason}); open it again")
