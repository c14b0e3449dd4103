"""Finds references by name: expressions and code of n8n refer to other nodes by their names.

Recognizes `$('Name')`, `$node["Name"]`, `$node.Name` and `$items("Name")`, with `_` for `$` in
Python, with single, double or back quotes, also inside a JSON string where the quotes are escaped.
Each text is read once; a quote that is not closed within `MAX_NAME_CHARS` is no reference.
Node-RED refers by id. Source: n8n, "Reference previous nodes"
(docs.n8n.io/data/referencing-previous-nodes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from datasources.types import Graph, Node
from datasources.uses import Path, node_texts

MAX_NAME_CHARS = 2_000
MAX_PLAIN = 8  # up to this many names, texts without any of them are skipped before parsing

NOTE_TYPE = "note"  # notes hold Markdown for people and are never evaluated

_OPENING = re.compile(
    r"(?<![\w$])[$_](?:(?:node\s{0,20}\[|items\s{0,20}\(|\()\s{0,20}(?P<slashes>\\{0,7})(?P<quote>[\"'`])"
    r"|node\.(?P<name>[A-Za-z$][\w$]{0,199})(?![\w$]))"
)
_IDENTIFIER = re.compile(r"[A-Za-z$][\w$]*")
_SPECIAL = re.compile(r"[\\\"'`\n]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameReference:
    """One reference in a text. `start` and `end` delimit the written name; `name` is the name
    without escapes.

    `quote` is the quote character, "" in `$node.Name`. `level` is how many times the quotes are
    escaped.
    """

    start: int
    end: int
    name: str
    quote: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A reference in a field of the node `node_key`. `path` is the path of the field in the
    node's document.
    """

    node_key: str
    path: Path
    mention: NameReference


def mentions(text: str) -> Iterator[NameReference]:
    """Yields the references in a text, in order. The nodes need not exist."""
    for match in _OPENING.finditer(text):
        if match["name"]:
            start, end = match.span("name")
            yield NameReference(start=start, end=end, name=match["name"], quote="", level=0)
            continue
        end = _closing(text, match.end(), match["slashes"] + match["quote"])
        if end is None:
            continue
        level = (len(match["slashes"]) + 1).bit_length() - 1
        name = text[match.end() : end]
        for _ in range(level + 1):
            name = _ESCAPED.sub(r"\1", name)
        yield NameReference(
            start=match.end(), end=end, name=name, quote=match["quote"], level=level
        )


def _closing(text: str, start: int, token: str) -> int | None:
    """Returns the offset of the closing quote (with its backslashes), or None."""
    end = start
    last = start + MAX_NAME_CHARS
    while (end := text.find(token, end, last)) >= 0:
        before = end
        while before > start and text[before - 1] == "\\":
            before -= 1
        if (end - before) % 2 == 0 if len(token) == 1 else end == before:
            return end
        end += 1
    return None


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Returns the text with references renamed from old to new names, escaped for their quotes."""
    parts: list[str] = []
    done = 0
    for mention in mentions(text):
        new = names.get(mention.name)
        if new is None:
            continue
        start = mention.start
        if mention.quote:
            for _ in range(mention.level + 1):
                new = new.replace("\\", "\\\\").replace(mention.quote, f"\\{mention.quote}")
            new = new.replace("\n", "\\n")
        elif not _IDENTIFIER.fullmatch(new):
            start -= 1  # replace the dot, too
            new = "['" + new.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "']"
        parts += [text[done:start], new]
        done = mention.end
    return "".join([*parts, text[done:]])


def texts_of(node: Node) -> Iterator[tuple[Path, str]]:
    """Yields the texts in a node's data and code that may contain references, with their paths.

    The order is undefined. The node's own name is left out.
    """
    if node.type == NOTE_TYPE:
        return
    yield from (entry for entry in node_texts(node) if entry[0] != ("data", "name"))


def calls_by_name(graph: Graph) -> bool:
    """Returns whether the nodes of a graph may refer to each other by name."""
    origin = (graph.metadata or {}).get("origin")
    return graph.category == "n8n" or (
        isinstance(origin, Mapping) and cast(Mapping[str, Any], origin).get("format") == "n8n"
    )


def by_name(graph: Graph, nodes: Iterable[Node]) -> dict[str, Node]:
    """Returns the node that each name refers to; {} if the graph does not use references by name.

    If several nodes share a name, it refers to the first one imported. Notes are left out.
    """
    nodes_by_name: dict[str, Node] = {}
    if not calls_by_name(graph):
        return nodes_by_name
    for node in sorted(nodes, key=lambda node: (_copy(node), node.key)):
        name = name_of(node)
        if name is not None and node.type != NOTE_TYPE:
            nodes_by_name.setdefault(name, node)
    return nodes_by_name


def _copy(node: Node) -> int:
    origin = (node.model_extra or {}).get("origin")
    number = cast(Mapping[str, Any], origin).get("copy", 1) if isinstance(origin, Mapping) else 1
    return number if isinstance(number, int) else 1


def name_of(node: Node) -> str | None:
    """Returns the name by which other nodes refer to a node; None if it has none."""
    data = node.data
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) and name else None


def references(nodes: Iterable[Node], names: Iterable[str]) -> Iterator[Reference]:
    """Yields all references in the nodes to one of the names."""
    wanted = frozenset(names)
    plain = None if len(wanted) > MAX_PLAIN or any(map(_SPECIAL.search, wanted)) else wanted
    for node in nodes if wanted else ():
        for path, text in texts_of(node):
            if plain is not None and not any(name in text for name in plain):
                continue
            for mention in mentions(text):
                if mention.name in wanted:
                    yield Reference(node_key=node.key, path=path, mention=mention)
