"""Reads the outline of a whole graph back from a context, as an independent check of
what is written.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from graphrag.i18n import LANGUAGES
from graphrag.prompts.library import context_phrase
from tools.answer_tables import Row, ToolTables, cell, parse_answer

HUB_EDGES = 3
SHOWN = 10

Link = tuple[str, str, str]
"""Source, target and label of an edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A whole graph: `overview` has what `read_graph_overview` would answer, `links`
    are all edges.
    """

    overview: ToolTables
    links: tuple[Link, ...]


def read_outline(context: str) -> Outline | None:
    """Return the outline that a context block holds; None where it holds none, or not all of it."""
    text = next((part for part in context.split("\n\n") if _is_outline(part)), None)
    if text is None:
        return None
    read = parse_answer(text)
    kinds = {key: cell(row.get("type")) for row in read.rows("types") for key in _keys(row)}
    links = tuple(_links(read.rows("flow")))
    is_whole = (len(kinds), len(links)) == (read.fields.get("nodes"), read.fields.get("edges"))
    if not is_whole or any(end not in kinds for link in links for end in link[:2]):
        return None
    names = {cell(row.get("_key")): row.get("name") for row in read.rows("names")}
    rows = {key: {"_key": key, "type": kind, "name": names.get(key)} for key, kind in kinds.items()}
    return Outline(overview=_overview(read, rows, links), links=links)


def _is_outline(part: str) -> bool:
    # The first line of a block is its marker; nothing in a cell can begin a line.
    headings = {context_phrase("outline", language) for language in LANGUAGES}
    return any(line in headings for line in part.split("\n")[:2])


def _keys(row: Row) -> list[str]:
    return cell(row.get("keys")).split()


def _links(flow: Sequence[Row]) -> list[Link]:
    found: list[Link] = []
    for row in flow:
        path = cell(row.get("path")).split()
        label = cell(row.get("label"))
        found += [(source, target, label) for source, target in pairwise(path)]
    return found


def _overview(
    read: ToolTables, rows: dict[str, dict[str, Any]], links: Sequence[Link]
) -> ToolTables:
    degree: Counter[str] = Counter()
    for source, target, _ in links:
        degree.update({source, target})
    entered = {target for source, target, _ in links if source != target}
    hubs = sorted(
        (key for key in rows if degree[key] >= HUB_EDGES), key=lambda key: (-degree[key], key)
    )
    groups = {
        "entry_points": [key for key in sorted(rows) if degree[key] and key not in entered],
        "hubs": hubs,
        "without_edges": [key for key in sorted(rows) if not degree[key]],
    }
    tables = {name: read.rows(name) for name in ("types", "sheets")}
    notes: list[str] = []
    for name, keys in groups.items():
        shown = tuple(rows[key] for key in keys[:SHOWN])
        tables[name] = shown
        if len(keys) > SHOWN:
            notes.append(f"{len(keys) - SHOWN} more {name}.")
    return ToolTables(text=read.text, fields=read.fields, tables=tables, notes=tuple(notes))
