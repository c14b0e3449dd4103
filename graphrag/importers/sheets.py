"""Gives the canvases of a file their sheets, the same ones at each import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from datasources.types import Graph
from graphrag.importers.draft import DraftSheet
from graphrag.importers.keys import KeyMaker, clean
from graphrag.importers.known import ORIGIN, ExistingGraph, is_imported
from graphrag.importers.report import Format
from graphrag.importers.values import as_dict


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetPlan:
    """`ids`: sheet id by foreign id. `labels`: the graph's sheets list. `refs`: foreign id by sheet id."""

    ids: dict[str, str]
    labels: dict[str, str]
    refs: dict[str, str]


def plan_sheets(sheets: Sequence[DraftSheet], existing: ExistingGraph | None, form: Format) -> SheetPlan:
    """Return ids "0", "1", … in the file's order; a canvas imported before keeps its id."""
    before = _stored_refs(existing.graph) if existing else {}
    kept = _sheets_of_people(existing, before, form)
    ids = {ref: sheet for sheet, ref in before.items() if ref in {s.ref for s in sheets}}
    taken = {*ids.values(), *kept}
    number = 0
    for sheet in sheets:
        if sheet.ref in ids:
            continue
        while str(number) in taken:
            number += 1
        ids[sheet.ref] = str(number)
        taken.add(str(number))
    names = KeyMaker()
    labels = {ids[sheet.ref]: names.make(clean(sheet.label, limit=120) or "sheet") for sheet in sheets}
    return SheetPlan(ids=ids, labels={**labels, **kept}, refs={ids[sheet.ref]: sheet.ref for sheet in sheets})


def _stored_refs(graph: Graph) -> dict[str, str]:
    origin = as_dict((graph.metadata or {}).get(ORIGIN)) or {}
    refs = as_dict(origin.get("sheets")) or {}
    return {sheet: ref for sheet, ref in refs.items() if isinstance(ref, str) and sheet in graph.sheets_list}


def _sheets_of_people(existing: ExistingGraph | None, before: dict[str, str], form: Format) -> dict[str, str]:
    """Return the sheets that a person added or put something on."""
    if existing is None:
        return {}
    added = set(existing.graph.sheets_list) - set(before)
    added |= {node.sheet for node in existing.nodes if not is_imported(node, form)}
    added |= {edge.sheet for edge in existing.edges if not is_imported(edge, form)}
    return {sheet: label for sheet, label in existing.graph.sheets_list.items() if sheet in added}
