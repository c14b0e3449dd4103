"""Answers about how nodes follow one another: neighbours up and down the flow, and paths."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from graphrag.offline.desk import Call, Desk
from graphrag.offline.intents import FindPath, Neighbours
from graphrag.offline.names import Found, Unclear, find_nodes, which
from graphrag.offline.readings import Reading, Row, cell
from graphrag.offline.shown import bullets, cite, cite_row, code, ends_of, plain
from graphrag.offline.wording import Mention

REACH = 3
AROUND = 100
MAX_LINES = 30

Step = tuple[str, str]
"""The key of the next node and what stands on the edge to it."""


def edge_lines(reading: Reading) -> list[str]:
    """Return every edge of a neighbourhood as a line, those of nearer nodes first."""
    nodes = {cell(row.get("_key")): row for row in reading.rows("nodes")}
    order = {key: place for place, key in enumerate(nodes)}
    edges = [(ends, row) for row in reading.rows("edges") if (ends := ends_of(row, nodes)) is not None]
    edges.sort(key=lambda edge: (order[edge[0][0]], order[edge[0][2]]))
    return [arrow(ends[0], ends[2], cell(row.get("label"))) for ends, row in edges]


def arrow(source: str, target: str, label: str) -> str:
    """Return an edge as a line."""
    return f"{cite(source)} → {cite(target)}" + (f" ({plain(label, 60)})" if label else "")


def neighbours(desk: Desk, wanted: Neighbours) -> str | None:
    """Say what surrounds a node; None when no node is meant. Raises: Needs, CannotGoOn."""
    found = find_nodes(desk, [wanted.node], sure=False)[0]
    if isinstance(found, Unclear):
        return which(desk, found) if found.several or (is_name(wanted.node) and found.candidates) else None
    around = desk.read(
        "explore_neighborhood",
        key=found.key,
        depth=wanted.depth,
        direction=wanted.direction,
        limit=MAX_LINES,
    )
    if around.is_error:
        return desk.say("read_failed", reason=plain(around.text, 300))
    intro = guess(desk, found, wanted.node)
    others = [row for row in around.rows("nodes") if cell(row.get("_key")) != found.key]
    if not others:
        return intro + desk.say(f"nothing_{wanted.direction}", node=cite(found.key))
    lines = _by_depth(desk, around, found.key, wanted)
    head = desk.say(f"around_{wanted.direction}", node=cite(found.key))
    more = f"\n{desk.say('more_around')}" if _is_cut(around) else ""
    return f"{intro}{head}\n{bullets(lines)}{more}"


def _by_depth(desk: Desk, around: Reading, key: str, wanted: Neighbours) -> list[str]:
    nodes = {cell(row.get("_key")): row for row in around.rows("nodes")}
    edges = [(ends, row) for row in around.rows("edges") if (ends := ends_of(row, nodes)) is not None]
    if wanted.depth > 1:
        return edge_lines(around)[:MAX_LINES] or [cite_row(row) for k, row in nodes.items() if k != key]
    lines: list[str] = []
    for (source, _, target, _), row in edges:
        if key not in (source, target):
            continue
        other = target if source == key else source
        role = ""
        if wanted.direction == "any":
            role = desk.say("comes_after" if source == key else "comes_before")
        label = cell(row.get("label"))
        lines.append(role + cite_row(nodes[other]) + (f" · {plain(label, 60)}" if label else ""))
    return lines[:MAX_LINES] or [cite_row(row) for k, row in nodes.items() if k != key]


def guess(desk: Desk, found: Found, mention: Mention) -> str:
    """Return the remark that a name was only nearly right; nothing when it was right."""
    if not found.guessed:
        return ""
    return desk.say("guessed", name=code(mention.text), node=cite(found.key)) + "\n"


def is_name(mention: Mention) -> bool:
    """Return whether a mention can be a name rather than a clause."""
    return mention.quoted or len(mention.text.split()) <= 4


def _is_cut(reading: Reading) -> bool:
    cut = any(note.startswith("More nodes than limit") or "more edges" in note for note in reading.notes)
    return cut or not (reading.is_whole("nodes") and reading.is_whole("edges"))


def path(desk: Desk, wanted: FindPath) -> str | None:
    """Say how one node leads to another; None when no nodes are meant. Raises: Needs, CannotGoOn."""
    found = find_nodes(desk, [wanted.start, wanted.end], sure=False)
    unclear = [one for one in found if isinstance(one, Unclear)]
    if unclear:
        if all(is_name(one.mention) for one in unclear):
            return "\n".join(which(desk, one) for one in unclear)
        return None
    start, end = (one for one in found if isinstance(one, Found))
    intro = guess(desk, start, wanted.start) + guess(desk, end, wanted.end)
    if start.key == end.key:
        return intro + desk.say("same_node", node=cite(start.key))
    readings = desk.read_all(*(_walk(key, way) for key in (start.key, end.key) for way in ("out", "in")))
    links = _links(readings)
    there, back = _shortest(links, start.key, end.key), _shortest(links, end.key, start.key)
    names = {"start": cite(start.key), "end": cite(end.key)}
    if there:
        return f"{intro}{desk.say('path', steps=len(there), **names)}\n{_written(start.key, there)}"
    whole = not any(_is_cut(reading) for reading in readings) and _ended(readings[0])
    none = desk.say("no_path" if whole else "no_short_path", reach=2 * REACH, **names)
    if back:
        none += f"\n{desk.say('path_back')}\n{_written(end.key, back)}"
    return intro + none


def _walk(key: str, direction: str) -> Call:
    arguments = {"key": key, "depth": REACH, "direction": direction, "limit": AROUND}
    return Call(name="explore_neighborhood", arguments=arguments)


def _links(readings: Sequence[Reading]) -> dict[str, list[Step]]:
    links: dict[str, list[Step]] = {}
    for reading in readings:
        nodes: Mapping[str, Row] = {cell(row.get("_key")): row for row in reading.rows("nodes")}
        for row in reading.rows("edges"):
            ends = ends_of(row, nodes)
            if ends is not None:
                links.setdefault(ends[0], []).append((ends[2], cell(row.get("label"))))
    return links


def _shortest(links: Mapping[str, list[Step]], start: str, end: str) -> list[Step]:
    came: dict[str, tuple[str, str]] = {start: ("", "")}
    queue = deque([start])
    while queue and end not in came:
        key = queue.popleft()
        for other, label in links.get(key, []):
            if other not in came:
                came[other] = (key, label)
                queue.append(other)
    if end not in came or start == end:
        return []
    steps: list[Step] = []
    at = end
    while at != start:
        before, label = came[at]
        steps.append((at, label))
        at = before
    return steps[::-1]


def _written(start: str, steps: Sequence[Step]) -> str:
    text = cite(start)
    for key, label in steps:
        text += (f" —{plain(label, 60)}→ " if label else " → ") + cite(key)
    return text


def _ended(reading: Reading) -> bool:
    """Return whether a walk came to the end of the flow before its greatest depth."""
    return all(row.get("depth") != REACH for row in reading.rows("nodes"))
