"""Rules about what stands in a graph: types, names, code, references, notes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import count
from typing import Any

from datasources.types import Node
from datasources.uses import texts_in
from languages.reading import alternatives
from tools.checks.checked_graph import CheckedGraph, Violation, data_of
from tools.checks.code_syntax import first_error, without_comments
from tools.references import (
    NOTE_TYPE,
    by_name,
    calls_by_name,
    mentions,
    name_of,
    references,
    renamed,
    texts_of,
)
from tools.secret_texts import PLACEHOLDER, REFERENCE, is_secret_name, redacted

_NODE = alternatives("claims", "node")
_NAMED_NODE = re.compile(
    rf"(?:\*\*|[`\"“«])\s*([^*`\"”»\n]{{2,60}}?)\s*(?:\*\*|[`\"”»])\s+{_NODE}\b", re.IGNORECASE
)
_TO_ADD = re.compile(rf"\b{alternatives('checks', 'to_add')}\b[^.\n]{{0,25}}$", re.IGNORECASE)
_ALIKE = 0.6
MAX_TEXT_CHARS = 20_000
"""Of a longer text the beginning is looked at."""


def missing_end(view: CheckedGraph) -> Iterator[Violation]:
    """Finds edges of which a node does not exist."""
    for edge in view.edges:
        for key, end in ((edge.source, "begins"), (edge.target, "ends")):
            if key not in view.nodes:
                facts = {"edge": edge.key, "end": end, "key": key}
                others = tuple(k for k in (edge.source, edge.target) if k in view.nodes)
                yield Violation(nodes=others, facts=facts, repair=_delete_edge(edge.key))


def missing_handle(view: CheckedGraph) -> Iterator[Violation]:
    """Finds edges at handles that their node does not have."""
    for edge in view.edges:
        for key, handle in (
            (edge.source, f"out {edge.source_handle}"),
            (edge.target, f"in {edge.target_handle}"),
        ):
            if key in view.nodes and handle not in view.points[key]:
                facts = {
                    "edge": edge.key,
                    "handle": handle.partition(" ")[2],
                    "name": view.name(key),
                }
                yield Violation(nodes=(key,), facts=facts, repair=_delete_edge(edge.key))


def duplicate_edge(view: CheckedGraph) -> Iterator[Violation]:
    """Finds edges between the same two handles as another."""
    seen: set[tuple[str, str, str, str]] = set()
    for edge in view.edges:
        ends = (edge.source, edge.source_handle, edge.target, edge.target_handle)
        if ends in seen:
            facts = {"edge": edge.key, "names": view.names([edge.source, edge.target])}
            nodes = tuple(key for key in (edge.source, edge.target) if key in view.nodes)
            yield Violation(nodes=nodes, facts=facts, repair=_delete_edge(edge.key))
        seen.add(ends)


def unknown_type(view: CheckedGraph) -> Iterator[Violation]:
    """Finds nodes of a type that neither is built in nor stored."""
    for node in view.nodes.values():
        if node.type not in view.types and node.type != NOTE_TYPE:
            yield Violation(
                nodes=(node.key,), facts={"name": view.name(node.key), "type": node.type}
            )


def unused_type(view: CheckedGraph) -> Iterator[Violation]:
    """Finds types that the workspace stores and no graph uses, where that was looked up."""
    if view.used_types is None:
        return
    for config in view.types.values():
        if config.workspace == view.graph.workspace and config.type not in view.used_types:
            yield Violation(nodes=(), facts={"type": config.type})


def duplicate_name(view: CheckedGraph) -> Iterator[Violation]:
    """Finds names that several steps have, in graphs whose nodes call each other by name."""
    if not calls_by_name(view.graph):
        return
    named: dict[str, list[Node]] = defaultdict(list)
    for node in view.steps:
        if (name := name_of(node)) is not None:
            named[name].append(node)
    for name, nodes in named.items():
        if len(nodes) > 1:
            meant = by_name(view.graph, nodes)[name].key
            keys = [meant, *(node.key for node in nodes if node.key != meant)]
            free = (new for n in count(2) if (new := f"{name} {n}") not in named)
            updates = [{"nodeKey": key, "changes": {"data.name": next(free)}} for key in keys[1:]]
            facts = {"name": name, "count": len(keys)}
            yield Violation(nodes=tuple(keys), facts=facts, repair=_update(updates))


def broken_code(view: CheckedGraph) -> Iterator[Violation]:
    """Finds code that cannot be parsed."""
    for node in view.nodes.values():
        if node.process:
            line = first_error(node.process, str(data_of(node).get("language") or "javascript"))
            if line is not None:
                yield Violation(
                    nodes=(node.key,), facts={"name": view.name(node.key), "line": line}
                )


def missing_reference(view: CheckedGraph) -> Iterator[Violation]:
    """Finds expressions and code that call a node by a name that no node has."""
    if not calls_by_name(view.graph):
        return
    names = {name_of(node) for node in view.steps}
    alike = Counter(_letters(name) for name in names if name)
    spelled = {_letters(name): name for name in names if name and alike[_letters(name)] == 1}
    for node in view.steps:
        missing: dict[str, None] = {}
        for path, text in texts_of(node):
            if path == ("process",):
                text = without_comments(text, str(data_of(node).get("language") or "javascript"))
            elif not text.startswith("="):
                continue  # no expression: the text is used as it stands
            called = (found.name for found in mentions(text))
            missing.update(
                (name, None) for name in called if name not in names and not _is_computed(name)
            )
        for target in missing:
            facts = {"name": view.name(node.key), "target": target}
            repair = _respell(node, target, spelled.get(_letters(target)))
            yield Violation(nodes=(node.key,), facts=facts, repair=repair)


def secret(view: CheckedGraph) -> Iterator[Violation]:
    """Finds passwords, tokens and keys that stand in a node's data or code."""
    for node in view.nodes.values():
        fields = [("process", "", node.process)] if node.process else []
        # Credentials of an imported node are names of what another place keeps.
        kept = [
            (path, text)
            for path, text in texts_in(node.data, ("data",))
            if path[1:2] != ("credentials",)
        ]
        fields += [(".".join(path), path[-1], text) for path, text in kept]
        for field, name, text in fields:
            text = text[:MAX_TEXT_CHARS]
            named = is_secret_name(name) and not REFERENCE.search(text) and PLACEHOLDER not in text
            if named or redacted(text).text != text:
                yield Violation(
                    nodes=(node.key,), facts={"name": view.name(node.key), "field": field}
                )
                break


def note_about_missing(view: CheckedGraph) -> Iterator[Violation]:
    """Finds notes that name a node ("the `Fetch` node") where nothing has a name like it."""
    known = {_plain(name) for node in view.steps if (name := name_of(node))}
    known |= {
        _plain(text)
        for config in view.types.values()
        for text in (config.display_name, config.type.rpartition(".")[2])
    }
    for node in view.nodes.values():
        text = data_of(node).get("text")
        if node.type != NOTE_TYPE or not isinstance(text, str):
            continue
        spans = _NAMED_NODE.finditer(text[:MAX_TEXT_CHARS])
        for target in dict.fromkeys(found[1] for found in spans if not _is_to_come(found)):
            # A short name is most often that of a kind of node.
            if len(target.split()) > 2 and not _is_known(_plain(target), known):
                yield Violation(nodes=(node.key,), facts={"target": target})


def _is_to_come(found: re.Match[str]) -> bool:
    """Tell whether a note says to add the node that it names."""
    return _TO_ADD.search(found.string, max(0, found.start() - 40), found.start()) is not None


def _letters(name: str) -> str:
    return re.sub(r"\W+", "", name).lower()


def _is_computed(name: str) -> bool:
    """Tell whether a name is put together by code: `"' + file + '"`."""
    return name.strip().startswith("+") or name.strip().endswith("+") or "${" in name


def _is_known(target: str, known: set[str]) -> bool:
    if not target or any(target in name or (len(name) > 2 and name in target) for name in known):
        return True
    words = set(target.split())
    if any(words & set(name.split()) for name in known):
        return True
    return any(SequenceMatcher(None, target, name).ratio() >= _ALIKE for name in known)


def _plain(text: str) -> str:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.sub(r"[^\w]+", " ", spaced).strip().lower()


def _update(updates: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(updates) == 1:
        return {"tool": "propose_update_node", "arguments": updates[0]}
    actions = [{"type": "update_node", "payload": update} for update in updates]
    return {"tool": "propose_batch", "arguments": {"actions": actions}}


def _respell(node: Node, target: str, name: str | None) -> Mapping[str, Any] | None:
    """Return the proposal that calls a node by its name; None where it cannot be written or
    is not known.
    """
    if name is None:
        return None
    paths = {reference.path for reference in references([node], [target])}
    changes = {
        ".".join(path): renamed(text, {target: name})
        for path, text in texts_of(node)
        if path in paths
    }
    if any(not part or "." in part for path in paths for part in path):
        return None
    return _update([{"nodeKey": node.key, "changes": changes}])


def _delete_edge(key: str) -> Mapping[str, Any]:
    return {"tool": "propose_delete_edge", "arguments": {"edgeKey": key}}
