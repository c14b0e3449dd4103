"""Finds what a graph does without a model: its starts, its longest way, its ends, what
its notes say.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datasources.types import Edge, Node
from tools.checks.checked_graph import NO_STEPS, data_of
from tools.references import NOTE_TYPE

MAX_STARTS = 50
SERVING = "ai_"
"""Handles of this beginning take what serves a node: a model, a tool."""

_MARKS = re.compile(
    r"!\[[^]]*\]\([^)]*\)|<[^<>]{1,200}>|\]\([^)]*\)|[*`\[]{1,3}|^[#>\s\d.•-]+", re.MULTILINE
)
_SENTENCE = re.compile(r"(?<=[.!?:])\s+|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSummary:
    """Keys of steps: those that begin, the longest of the shortest ways from one, those where
    a way ends.

    `notes` are the notes' keys with their text without marks, the fullest first.
    """

    starts: Sequence[str]
    way: Sequence[str]
    ends: Sequence[str]
    notes: Sequence[tuple[str, str]]


def summarize_flow(nodes: Sequence[Node], edges: Sequence[Edge]) -> FlowSummary:
    """Return what a graph does."""
    steps = {node.key: node for node in nodes if node.type not in NO_STEPS}
    onward: dict[str, list[str]] = {}
    for edge in edges:
        if (
            not edge.target_handle.startswith(SERVING)
            and {edge.source, edge.target} <= steps.keys()
        ):
            onward.setdefault(edge.source, []).append(edge.target)
    entered = {target for targets in onward.values() for target in targets}
    first = [key for key in steps if key in onward and key not in entered]
    first = first or [key for key in steps if not steps[key].points("in")]
    begins = [key for key in first if not steps[key].points("in")] or first
    ways = [_longest(onward, key) for key in begins[:MAX_STARTS]]
    way = max(ways, key=len) if ways else []
    ends = [key for key in steps if key in entered and key not in onward]
    texts = [(node.key, note_text(node)) for node in nodes if node.type == NOTE_TYPE]
    return FlowSummary(
        starts=begins,
        way=way,
        ends=sorted(ends, key=lambda key: key not in way[-1:]),
        notes=sorted([one for one in texts if one[1]], key=lambda one: -len(one[1])),
    )


def _longest(onward: Mapping[str, Sequence[str]], start: str) -> list[str]:
    """Return the shortest way to the step that is the most steps away."""
    came = {start: ""}
    queue = deque([start])
    key = start
    while queue:
        key = queue.popleft()
        for other in onward.get(key, ()):
            if other not in came:
                came[other] = key
                queue.append(other)
    way = [key]
    while came[way[-1]]:
        way.append(came[way[-1]])
    return way[::-1]


def note_text(node: Node) -> str:
    """Return what a note says, on one line, without Markdown's marks."""
    text = str(data_of(node).get("text") or data_of(node).get("name") or "")[:20_000]
    lines = [line.strip() for line in _MARKS.sub(" ", text).split("\n")]
    joined = "\n".join(line for line in lines if re.search(r"\w", line))
    return re.sub(r"(?<![.!?:,;])\n", ". ", joined).replace("\n", " ")


def beginning(text: str, limit: int) -> str:
    """Return the first sentences of a text, at most so many characters."""
    said = ""
    for sentence in _SENTENCE.split(" ".join(text.split())):
        if len(said) > limit // 3 and len(said) + len(sentence) >= limit:
            break
        said = f"{said} {sentence}".strip()
    return said if len(said) <= limit else said[: limit - 1].rstrip() + "…"
