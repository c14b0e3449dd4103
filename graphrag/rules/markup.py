"""Writes names, keys and values of the graph into an answer; none of them can become a
link of ours.
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
    """Return the link to a node; a key that no link can hold is shown as code."""
    return code(key) if _UNLINKABLE.search(key) else f"{{{{node:{key}}}}}"


def highlight(keys: Sequence[str], *, as_: str) -> str:
    """Return the link that marks several nodes `as_` what they are: `runs` or `stops`."""
    linkable = (key for key in keys if not _UNLINKABLE.search(key) and "," not in key)
    return f"{{{{highlight:{as_}|{','.join(linkable)}}}}}"


def cite_row(row: Row, *, with_type: bool = True) -> str:
    """Return the link to the node of a row, its name where the key does not say it,
    and its type.
    """
    key = key_of(row)
    name = cell(row.get("name"))
    kind = cell(row.get("type"))
    shown = cite(key)
    if name and letters(name) != letters(key):
        shown += f" “{plain(name, 80)}”"
    return f"{shown} ({plain(kind, 80)})" if with_type and kind else shown


def plain(text: str, limit: int = MAX_VALUE) -> str:
    """Return a text of the graph on one line, cut, with nothing in it that a client takes
    for a link.
    """
    return _LINK.sub("{ {", cut_name(text, limit))


def code(text: str, limit: int = 200) -> str:
    """Return a short text as inline code."""
    return f"`{plain(squeeze(text), limit).replace('`', 'ˋ')}`"


def fenced(text: str, language: str = "js") -> str:
    """Return code in a fence that nothing in it can close."""
    longest = max((len(run) for run in _FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{_LINK.sub('{ {', text)}\n{fence}"


def edge_lines(answer: ToolTables) -> list[str]:
    """Return every edge of an answer as a line, those of nearer nodes first."""
    order = {key_of(row): place for place, row in enumerate(answer.rows("nodes"))}
    return [
        f"{cite(edge.source)} → {cite(edge.target)}"
        + (f" ({plain(edge.label, 60)})" if edge.label else "")
        for edge in sorted(
            edges_of(answer), key=lambda edge: (order[edge.source], order[edge.target])
        )
    ]


Links = Mapping[str, list[tuple[str, str]]]


def links_of(answers: Iterable[ToolTables]) -> Links:
    """Return where each node of some answers leads, with what stands on the edge."""
    links: dict[str, list[tuple[str, str]]] = {}
    for edge in (edge for answer in answers for edge in edges_of(answer)):
        links.setdefault(edge.source, []).append((edge.target, edge.label))
    return links


def way_line(links: Links, start: str, end: str) -> str:
    """Return a shortest path as links joined by arrows; empty where there is none."""
    came = {start: cite(start)}
    queue = deque([start])
    while queue and end not in came:
        key = queue.popleft()
        for other, label in links.get(key, []):
            if other not in came:
                came[other] = (
                    came[key] + (f" —{plain(label, 60)}→ " if label else " → ") + cite(other)
                )
                queue.append(other)
    return came.get(end, "") if end != start else ""


def bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
