"""Summarizes the flow of a graph without a model: its starts, longest path, ends and notes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datasources.types import Edge, Node
from tools.checks.checked_graph import NO_STEPS, data_of
from tools.references import NOTE_TYPE

MAX_STARTS = 50
SERVING = "ai_"  # prefix of the handles for nodes that serve another: a model, a tool

_MARKS = re.compile(
    r"!\[[^]]*\]\([^)]*\)|<[^<>]{1,200}>|\]\([^)]*\)|[*`\[]{1,3}|^[#>\s\d.•-]+", re.MULTILINE
)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSummary:
    """Keys of the start and end steps of a graph, and of the steps on its longest path.

    `way` is the longest of the shortest paths from a start. `notes` are pairs of a note's key and
    its text without Markdown, longest first.
    """

    starts: Sequence[str]
    way: Sequence[str]
    ends: Sequence[str]
    notes: Sequence[tuple[str, str]]


def summarize_flow(nodes: Sequence[Node], edges: Sequence[Edge]) -> FlowSummary:
    """Returns the summary of a graph."""
    steps = {node.key: node for node in nodes if node.type not in NO_STEPS}
    successors: dict[str, list[str]] = {}
    for edge in edges:
        if (
            not edge.target_handle.startswith(SERVING)
            and {edge.source, edge.target} <= steps.keys()
        ):
            successors.setdefault(edge.source, []).append(edge.target)
    entered = {target for targets in successors.values() for target in targets}
    first = [key for key in steps if key in successors and key not in entered]
    first = first or [key for key in steps if not steps[key].points("in")]
    starts = [key for key in first if not steps[key].points("in")] or first
    paths = [_longest(successors, key) for key in starts[:MAX_STARTS]]
    longest = max(paths, key=len) if paths else []
    ends = [key for key in steps if key in entered and key not in successors]
    texts = [(node.key, note_text(node)) for node in nodes if node.type == NOTE_TYPE]
    return FlowSummary(
        starts=starts,
        way=longest,
        ends=sorted(ends, key=lambda key: key not in longest[-1:]),
        notes=sorted([note for note in texts if note[1]], key=lambda note: -len(note[1])),
    )


def _longest(successors: Mapping[str, Sequence[str]], start: str) -> list[str]:
    """Returns the shortest path from `start` to the step farthest from it."""
    previous = {start: ""}
    queue = deque([start])
    key = start
    while queue:
        key = queue.popleft()
        for other in successors.get(key, ()):
            if other not in previous:
                previous[other] = key
                queue.append(other)
    path = [key]
    while previous[path[-1]]:
        path.append(previous[path[-1]])
    return path[::-1]


def note_text(node: Node) -> str:
    """Returns the text of a note on one line, without Markdown."""
    text = str(data_of(node).get("text") or data_of(node).get("name") or "")[:20_000]
    lines = [line.strip() for line in _MARKS.sub(" ", text).split("\n")]
    joined = "\n".join(line for line in lines if re.search(r"\w", line))
    return re.sub(r"(?<![.!?:,;])\n", ". ", joined).replace("\n", " ")


def beginning(text: str, limit: int) -> str:
    """Returns the first sentences of a text, at most `limit` characters."""
    start = ""
    for sentence in _SENTENCE.split(" ".join(text.split())):
        if len(start) > limit // 3 and len(start) + len(sentence) >= limit:
            break
        start = f"{start} {sentence}".strip()
    return start if len(start) <= limit else start[: limit - 1].rstrip() + "…"
