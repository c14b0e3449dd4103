"""Past changes of a graph: what a tool asks for, and the interface that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from languages import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A request for changes of a graph: those of a node, edge, sheet or type, or all changes.

    `start` and `end` are NOW, an ISO 8601 instant or relative to now, as `-1_WEEK`. A `start` of
    None means all earlier changes.
    """

    node: str | None = None
    edge: str | None = None
    sheet: str | None = None
    node_type: str | None = None
    start: str | None = None
    end: str = "NOW"
    limit: int = 50
    language: Language = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChange:
    """One change: a manual edit, an applied proposal, or an undo of either. `time` is ISO 8601."""

    time: str
    kind: Literal["edit", "change", "undo"]
    who: str
    what: str
    proposal: str = ""
    undone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChanges:
    """Changes, newest first, with the start and end of their period. `more` is True if older
    changes in the period were left out.
    """

    changes: Sequence[PastChange]
    start: str | None
    end: str
    more: bool = False


class History(Protocol):
    """Reads the changes of a graph. Implemented by the history of edits and approvals of
    graphrag.
    """

    async def __call__(self, graph_key: str, past: Past) -> PastChanges:
        """Returns the requested changes. Raises: ValueError if the period is invalid."""
        ...
