"""Compares a graph, and a newer version of its file, with the file that was imported last.

Both comparisons are made in what the file's format can express, so that a difference here is what
an export would write, and a difference there is what an import would take.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from datasources.errors import GraphNotFound
from graphrag.approvals import Approvals
from graphrag.approvals.preview import preview_of
from graphrag.importers.align import GraphContent, aligned
from graphrag.importers.exchange import KEPT_NAME, KIND, kept_file, read_content, read_kept
from graphrag.importers.export import reimported
from graphrag.importers.reading_files import read_file
from graphrag.importers.three_way_merge import merged
from graphrag.importers.workflow_format import ImportResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What changed since the last import, as previews of proposals show it.

    `here` was changed in the graph, `there` in the file; empty where nothing was changed.
    `revision` is that of the graph.
    """

    revision: int
    here: Mapping[str, Any] = field(default_factory=dict[str, Any])
    there: Mapping[str, Any] = field(default_factory=dict[str, Any])


async def differences(
    approvals: Approvals, graph_key: str, raw: bytes | None = None
) -> Differences | None:
    """Compares a graph with the file that it was imported from, and that file with a newer one.

    Returns None where no file is stored for the graph, or its format cannot be written.
    Raises: GraphNotFound, UnreadableWorkflow, WorkersBusy.
    """
    ours = await read_content(approvals.source, graph_key)
    if ours is None:
        raise GraphNotFound(graph_key=graph_key)
    kept = kept_file(await approvals.records.get(KIND, graph_key), ours.graph)
    if kept is None:
        return None
    source = base64.b64decode(kept["source"])
    before = await read_kept(source, ours.graph)
    newer = None
    if raw is not None:
        newer = await read_file(
            raw, file_name=KEPT_NAME, workspace=ours.graph.workspace, graph_key=graph_key
        )
    return await asyncio.to_thread(_compared, ours, before, newer, source)


def _compared(
    ours: GraphContent, before: ImportResult, newer: ImportResult | None, source: bytes
) -> Differences | None:
    written = reimported(before.report.format, ours, source, KEPT_NAME)
    if written is None:
        return None
    base = GraphContent.of(aligned(before, ours, written=written))
    there = None if newer is None else GraphContent.of(aligned(newer, base, ours, written=written))
    form = before.report.format
    return Differences(
        revision=ours.graph.revision,
        here=_difference(base, GraphContent.of(written), ours, form),
        there={} if there is None else _difference(base, there, ours, form),
    )


def _difference(
    before: GraphContent, after: GraphContent, ours: GraphContent, form: str
) -> dict[str, Any]:
    """Returns the preview of the change from one content to another.

    Types of nodes are left out: many workflows share them. `ours` knows their names.
    """
    plain = replace(before, types={})
    plan = merged(plain, plain, replace(after, types={}), form=form)
    return preview_of(replace(before, types=ours.types), plan.mutation)
