"""Live graphs: several people edit one graph at once, nothing acknowledged is lost, the agent sees it all."""

from __future__ import annotations

from graphrag.live.deeds import Deed, deeds_of
from graphrag.live.errors import (
    EditNotFound,
    EditNotKept,
    EditRefused,
    LiveElsewhere,
    LiveError,
    LiveGraphClosed,
)
from graphrag.live.graph import Applied, LiveGraph
from graphrag.live.graphs import LiveGraphs
from graphrag.live.members import Member
from graphrag.live.options import LiveOptions, LiveWatch, SaveStatus
from graphrag.live.source import LiveSource, SettledSource

__all__ = [
    "Applied",
    "Deed",
    "EditNotFound",
    "EditNotKept",
    "EditRefused",
    "LiveElsewhere",
    "LiveError",
    "LiveGraph",
    "LiveGraphClosed",
    "LiveGraphs",
    "LiveOptions",
    "LiveSource",
    "LiveWatch",
    "Member",
    "SaveStatus",
    "SettledSource",
    "deeds_of",
]
