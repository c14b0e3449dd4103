"""References by name: expressions and code of n8n call another node by what it is called.

Understood are `$('Name')`, `$node["Name"]`, `$node.Name` and `$items("Name")`, with `_` for `$` in
Python, single, double or back quotes, also where the expression stands inside a JSON string and its
quotes are escaped. Source: n8n, "Reference previous nodes"
(docs.n8n.io/data/referencing-previous-nodes). Node-RED refers by id. Texts are read once: what no
quote closes within `MAX_NAME_CHARS` is no reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from datasources.types import Graph, Node
from datasources.uses import Path, node_texts

MAX_NAME_CHARS = 2_000
MAX_PLAIN = 8
"""Of so few names it is looked first whether a text holds one at all."""

NOTE_TYPE = "note"
"""A note holds Markdown for people: nothing of it is evaluated."""

_OPENING = re.compile(
    r"(?<![\w$])[$_](?:(?:node\s{0,20}\[|items\s{0,20}\(|\()\s{0,20}(?P<slashes>\\{0,7})(?P<quote>[\"'`])"
    r"|node\.(?P<name>[A-Za-z$][\w$]{0,199})(?![\w$]))"
)
_IDENTIFIER = re.compile(r"[A-Za-z$][\w$]*")
_SPECIAL = re.compile(r"[\\\"'`\n]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameReference:
    """One reference in a text. `start` and `end` are where its name is written, `name`
    what it says.

    `quote` is what encloses the name, "" in `$node.Name`; `level` how often the text is escaped.
    """

    start: int
    end: int
    name: str
    quote: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A mention of a node in a field of another; `path` leads from the node's document
    to the text.
    """

    node_key: str
    path: Path
    mention: NameReference


def mentions(text: str) -> Iterator[NameReference]:
    """Yield the names that a text calls nodes by, in order; whether there are such nodes
    is not asked.
    """
    for found in _OPENING.finditer(text):
        if found["name"]:
            start, end = found.span("name")
            yield NameReference(start=start, end=end, name=found["name"], quote="", level=0)
            continue
        end = _closing(text, found.end(), found["slashes"] + found["quote"])
        if end is None:
            continue
        level = (len(found["slashes"]) + 1).bit_length() - 1
        name = text[found.end() : end]
        for _ in range(level + 1):
            name = _ESCAPED.sub(r"\1", name)
        yield NameReference(
            start=found.end(), end=end, name=name, quote=found["quote"], level=level
        )


def _closing(text: str, start: int, token: str) -> int | None:
    """Return where the token stands that no further backslash escapes."""
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
    """Return the text with its mentions of the old names written with the new ones, as
    its quotes need.
    """
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
            start -= 1  # the dot goes
            new = "['" + new.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "']"
        parts += [text[done:start], new]
        done = mention.end
    return "".join([*parts, text[done:]])


def texts_of(node: Node) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a node's data and code that may refer to others, each with its path,
    in no order.
    """
    if node.type == NOTE_TYPE:
        return
    yield from (found for found in node_texts(node) if found[0] != ("data", "name"))


def calls_by_name(graph: Graph) -> bool:
    """Return whether the nodes of a graph may call each other by name."""
    origin = (graph.metadata or {}).get("origin")
    return graph.category == "n8n" or (
        isinstance(origin, Mapping) and cast(Mapping[str, Any], origin).get("format") == "n8n"
    )


def by_name(graph: Graph, nodes: Iterable[Node]) -> dict[str, Node]:
    """Return the node that each name means; nothing in a graph whose nodes do not call
    each other so.

    Of several nodes of one name the first that was imported is meant; a note never is.
    """
    found: dict[str, Node] = {}
    if not calls_by_name(graph):
        return found
    for node in sorted(nodes, key=lambda node: (_copy(node), node.key)):
        name = name_of(node)
        if name is not None and node.type != NOTE_TYPE:
            found.setdefault(name, node)
    return found


def _copy(node: Node) -> int:
    origin = (node.model_extra or {}).get("origin")
    number = cast(Mapping[str, Any], origin).get("copy", 1) if isinstance(origin, Mapping) else 1
    return number if isinstance(number, int) else 1


def name_of(node: Node) -> str | None:
    """Return the name by which other nodes call a node."""
    data = node.data
    name = cast(Mapping[str, Any], data).get("name") if isinstance(data, Mapping) else None
    return name if isinstance(name, str) and name else None


def references(nodes: Iterable[Node], names: Iterable[str]) -> Iterator[Reference]:
    """Yield where the nodes refer to one of the names."""
    wanted = frozenset(names)
    plain = None if len(wanted) > MAX_PLAIN or any(map(_SPECIAL.search, wanted)) else wanted
    for node in nodes if wanted else ():
        for path, text in texts_of(node):
            if plain is not None and not any(name in text for name in plain):
                continue
            for mention in mentions(text):
                if mention.name in wanted:
                    yield Reference(node_key=node.key, path=path, mention=mention)
