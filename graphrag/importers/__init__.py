"""Reads workflows of other tools into graphs, and writes graphs as Nodius JSON. No I/O."""

from __future__ import annotations

from graphrag.importers.assemble import ImportResult
from graphrag.importers.door import detect_format, import_workflow
from graphrag.importers.exporter import export_graph
from graphrag.importers.known import ExistingGraph
from graphrag.importers.report import Dropped, Format, ImportReport, Repaired, UnreadableWorkflow
from graphrag.importers.update import to_mutation

__all__ = [
    "Dropped",
    "ExistingGraph",
    "Format",
    "ImportReport",
    "ImportResult",
    "Repaired",
    "UnreadableWorkflow",
    "detect_format",
    "export_graph",
    "import_workflow",
    "to_mutation",
]
