"""Formats names, keys and values of the graph for an answer, so that none of them
becomes a link.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from datasources.text import letters
from tools.answer_tables import Row, ToolTables, cell, edges_of, key_of
from tools.compact import cut_name, squeeze

MAX_VALUE = 400
_LINK = re.compile(r"\{\{(?=\s*\w+\s*:)")
_UNLINKABLE = re.compile(r"[{}|\n]")
_FENCE = re.compile(r"`{3,}")


def cite(key: str) -> str:
    """Returns the link to a node, or its key as code if a link cannot contain it."""
    return code(key) if _UNLINKABLE.search(key) else f"{{{{node:{key}}}}}"


def highlight(keys: Sequence[str], *, as_: str) -> str:
    """Returns the link that highlights several nodes as `runs` or `stops`."""
    linkable = (key for key in keys if not _UNLINKABLE.search(key) and "," not in key)
    return f"{{{{highlight:{as_}|{','.join(linkable)}}}}}"


def cite_row(row: Row, *, with_type: bool = True) -> str:
    """Returns the link to the node of a row, with its name if the key differs, and its type."""
    key = key_of(row)
    name = cell(row.get("name"))
    kind = cell(row.get("type"))
    shown = cite(key)
    if name and letters(name) != letters(key):
        shown += f" “{plain(name, 80)}”"
    return f"{shown} ({plain(kind, 80)})" if with_type and kind else shown


def plain(text: str, limit: int = MAX_VALUE) -> str:
    """Returns a text of the graph on one line, cut, without anything that a client
    reads as a link.
    """
    return _LINK.sub("{ {", cut_name(text, limit))


def code(text: str, limit: int = 200) -> str:
    """Returns a short text as inline code."""
    return f"`{plain(squeeze(text), limit).replace('`', 'ˋ')}`"


def fenced(text: str, language: str = "js") -> str:
    """Returns code in a fence that is longer than any within the code."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{_LINK.sub('{ {', text)}\n{fence}"


def edge_lines(answer: ToolTables) -> list[str]:
    """Returns each edge of a result as a line, those of nearer nodes first."""
    order = {key_of(row): index for index, row in enumerate(answer.rows("nodes"))}
    return [
        f"{cite(edge.source)} → {cite(edge.target)}"
        + (f" ({plain(edge.label, 60)})" if edge.label else "")
        for edge in sorted(
            edges_of(answer), key=lambda edge: (order[edge.source], order[edge.target])
        )
    ]


Links = Mapping[str, list[tuple[str, str]]]


def links_of(answers: Iterable[ToolTables]) -> Links:
    """Returns the targets of each node in the results, with the labels of the edges."""
    links: dict[str, list[tuple[str, str]]] = {}
    for edge in (edge for answer in answers for edge in edges_of(answer)):
        links.setdefault(edge.source, []).append((edge.target, edge.label))
    return links


def path_line(links: Links, start: str, end: str) -> str:
    """Returns a shortest path as links joined by arrows; empty if there is none."""
    paths = {start: cite(start)}
    queue = deque([start])
    while queue and end not in paths:
        key = queue.popleft()
        for other, label in links.get(key, []):
            if other not in paths:
                paths[other] = (
                    paths[key] + (f" —{plain(label, 60)}→ " if label else " → ") + cite(other)
                )
                queue.append(other)
    return paths.get(end, "") if end != start else ""


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
