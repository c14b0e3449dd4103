"""Reads workflows of other tools into graphs, merges them, and writes graphs as Nodius JSON.

A format is a folder or a file with one `WorkflowFormat`, and one entry in `dispatch.FORMATS`: see
docs/importing.md.

Other packages import the names of `__all__` and the modules `exchange` (imports into a store,
exports from one), `differences` (what changed since an import), `export` (files with the changes
of a graph), `assemble` (the field with the origin of a node), `clipboard`, `report`, `json_values`,
`readable_keys`, `secrets`, `type_facts`, `usual_fields` and `nodius` (the parts of an export).
"""

from __future__ import annotations

from graphrag.importers.align import GraphContent
from graphrag.importers.dispatch import import_workflow
from graphrag.importers.nodius import export_graph
from graphrag.importers.report import ImportReport, UnreadableWorkflow
from graphrag.importers.three_way_merge import Merged, merged
from graphrag.importers.workflow_format import ImportResult

__all__ = [
    "GraphContent",
    "ImportReport",
    "ImportResult",
    "Merged",
    "UnreadableWorkflow",
    "export_graph",
    "import_workflow",
    "merged",
]
