"""Live graphs: several people edit one graph at once, nothing acknowledged is lost, the agent
sees it all.

From outside: the names of `__all__`, `errors`, `edits` and `instruction_batch` (what an
edit takes), `live_graph`, `members`, `edit_history`, `merge_remote`, `past_graph`,
`restoring` and `blame`.
"""

from __future__ import annotations

from graphrag.live.errors import EditRefused, LiveElsewhere, LiveGraphClosed
from graphrag.live.journal import journalled_history
from graphrag.live.live_graph import AppliedEdit, LiveGraph
from graphrag.live.live_graphs import LiveGraphs
from graphrag.live.live_source import LiveSource, SavedSource
from graphrag.live.members import Member
from graphrag.live.options import LiveOptions, LiveWatch
from graphrag.live.revisions import Revision, Revisions

__all__ = [
    "AppliedEdit",
    "EditRefused",
    "LiveElsewhere",
    "LiveGraph",
    "LiveGraphClosed",
    "LiveGraphs",
    "LiveOptions",
    "LiveSource",
    "LiveWatch",
    "Member",
    "Revision",
    "Revisions",
    "SavedSource",
    "journalled_history",
]
