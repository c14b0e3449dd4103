"""Live graphs: several people edit one graph at the same time, no acknowledged edit is lost, and
the agent sees every edit.

Other packages import the names of `__all__` and the modules `errors`, `edits` and
`instruction_batch` (the functions of edits), `live_graph`, `members`, `edit_history`,
`merge_remote`, `past_graph`, `restoring` and `blame`.
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
