"""Reads workflows of other tools into graphs, merges them, and writes graphs as Nodius JSON. No I/O."""

from __future__ import annotations

from graphrag.importers.align import GraphContent
from graphrag.importers.dispatch import detect_format, import_workflow
from graphrag.importers.nodius.writer import export_graph
from graphrag.importers.report import Dropped, ImportReport, Repaired, UnreadableWorkflow
from graphrag.importers.three_way_merge import Merged, merged
from graphrag.importers.workflow_format import ImportResult

__all__ = [
    "Dropped",
    "GraphContent",
    "ImportReport",
    "ImportResult",
    "Merged",
    "Repaired",
    "UnreadableWorkflow",
    "detect_format",
    "export_graph",
    "import_workflow",
    "merged",
]
