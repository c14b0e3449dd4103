"""Rules about the contents of a graph: types, names, code, references, secrets, notes."""

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
_ALIKE = 0.6  # similarity (0 to 1) from which two names count as the same
MAX_TEXT_CHARS = 20_000  # only the beginning of a longer text is checked


def missing_end(view: CheckedGraph) -> Iterator[Violation]:
    """Finds edges whose source or target node does not exist."""
    for edge in view.edges:
        for key in (edge.source, edge.target):
            if key not in view.nodes:
                facts = {"edge": edge.key, "key": key}
                others = tuple(k for k in (edge.source, edge.target) if k in view.nodes)
                yield Violation(nodes=others, facts=facts, repair=_delete_edge(edge.key))


def missing_handle(view: CheckedGraph) -> Iterator[Violation]:
    """Finds edges that use a handle which their node does not have."""
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
    """Finds edges that connect the same two handles as an earlier edge."""
    seen: set[tuple[str, str, str, str]] = set()
    for edge in view.edges:
        ends = (edge.source, edge.source_handle, edge.target, edge.target_handle)
        if ends in seen:
            facts = {"edge": edge.key, "names": view.names([edge.source, edge.target])}
            nodes = tuple(key for key in (edge.source, edge.target) if key in view.nodes)
            yield Violation(nodes=nodes, facts=facts, repair=_delete_edge(edge.key))
        seen.add(ends)


def unknown_type(view: CheckedGraph) -> Iterator[Violation]:
    """Finds nodes whose type is neither built in nor stored in the workspace."""
    for node in view.nodes.values():
        if node.type not in view.types and node.type != NOTE_TYPE:
            yield Violation(
                nodes=(node.key,), facts={"name": view.name(node.key), "type": node.type}
            )


def unused_type(view: CheckedGraph) -> Iterator[Violation]:
    """Finds types that the workspace stores and no graph uses. Finds nothing if the types in
    use were not collected.
    """
    if view.used_types is None:
        return
    for config in view.types.values():
        if config.workspace == view.graph.workspace and config.type not in view.used_types:
            yield Violation(nodes=(), facts={"type": config.type})


def duplicate_name(view: CheckedGraph) -> Iterator[Violation]:
    """Finds names shared by several steps, in graphs whose nodes refer to each other by name."""
    if not calls_by_name(view.graph):
        return
    nodes_by_name: dict[str, list[Node]] = defaultdict(list)
    for node in view.steps:
        if (name := name_of(node)) is not None:
            nodes_by_name[name].append(node)
    for name, nodes in nodes_by_name.items():
        if len(nodes) > 1:
            kept_key = by_name(view.graph, nodes)[name].key
            keys = [kept_key, *(node.key for node in nodes if node.key != kept_key)]
            free_names = (new for n in count(2) if (new := f"{name} {n}") not in nodes_by_name)
            updates = [
                {"nodeKey": key, "changes": {"data.name": next(free_names)}} for key in keys[1:]
            ]
            facts = {"name": name, "count": len(keys)}
            yield Violation(nodes=tuple(keys), facts=facts, repair=_update(updates))


def broken_code(view: CheckedGraph) -> Iterator[Violation]:
    """Finds code with a syntax error."""
    for node in view.nodes.values():
        if node.process:
            line = first_error(node.process, str(data_of(node).get("language") or "javascript"))
            if line is not None:
                yield Violation(
                    nodes=(node.key,), facts={"name": view.name(node.key), "line": line}
                )


def missing_reference(view: CheckedGraph) -> Iterator[Violation]:
    """Finds expressions and code that refer to a node by a name that no node has."""
    if not calls_by_name(view.graph):
        return
    names = {name_of(node) for node in view.steps}
    name_counts = Counter(_letters(name) for name in names if name)
    right_names = {
        _letters(name): name for name in names if name and name_counts[_letters(name)] == 1
    }
    for node in view.steps:
        missing: dict[str, None] = {}
        for path, text in texts_of(node):
            if path == ("process",):
                text = without_comments(text, str(data_of(node).get("language") or "javascript"))
            elif not text.startswith("="):
                continue  # not an expression: the text is used literally
            called = (mention.name for mention in mentions(text))
            missing.update(
                (name, None) for name in called if name not in names and not _is_computed(name)
            )
        for target in missing:
            facts = {"name": view.name(node.key), "target": target}
            repair = _respell(node, target, right_names.get(_letters(target)))
            yield Violation(nodes=(node.key,), facts=facts, repair=repair)


def secret(view: CheckedGraph) -> Iterator[Violation]:
    """Finds passwords, tokens and keys in a node's data or code."""
    for node in view.nodes.values():
        fields = [("process", "", node.process)] if node.process else []
        # `data.credentials` of an imported node holds only names of stored credentials.
        data_texts = [
            (path, text)
            for path, text in texts_in(node.data, ("data",))
            if path[1:2] != ("credentials",)
        ]
        fields += [(".".join(path), path[-1], text) for path, text in data_texts]
        for field, name, text in fields:
            text = text[:MAX_TEXT_CHARS]
            is_named_secret = (
                is_secret_name(name) and not REFERENCE.search(text) and PLACEHOLDER not in text
            )
            if is_named_secret or redacted(text).text != text:
                yield Violation(
                    nodes=(node.key,), facts={"name": view.name(node.key), "field": field}
                )
                break


def note_about_missing(view: CheckedGraph) -> Iterator[Violation]:
    """Finds notes that name a node ("the `Fetch` node") although no node or type has a similar
    name.
    """
    names = {_plain(name) for node in view.steps if (name := name_of(node))}
    names |= {
        _plain(text)
        for config in view.types.values()
        for text in (config.display_name, config.type.rpartition(".")[2])
    }
    for node in view.nodes.values():
        text = data_of(node).get("text")
        if node.type != NOTE_TYPE or not isinstance(text, str):
            continue
        spans = _NAMED_NODE.finditer(text[:MAX_TEXT_CHARS])
        for target in dict.fromkeys(span[1] for span in spans if not _is_planned(span)):
            # A name of one or two words is usually the name of a node type.
            if len(target.split()) > 2 and not _is_known(_plain(target), names):
                yield Violation(nodes=(node.key,), facts={"target": target})


def _is_planned(match: re.Match[str]) -> bool:
    """Returns whether the note asks to add the node that it names."""
    return _TO_ADD.search(match.string, max(0, match.start() - 40), match.start()) is not None


def _letters(name: str) -> str:
    return re.sub(r"\W+", "", name).lower()


def _is_computed(name: str) -> bool:
    """Returns whether a name is built by code, as in `"' + file + '"`."""
    return name.strip().startswith("+") or name.strip().endswith("+") or "${" in name


def _is_known(target: str, names: set[str]) -> bool:
    if not target or any(target in name or (len(name) > 2 and name in target) for name in names):
        return True
    words = set(target.split())
    if any(words & set(name.split()) for name in names):
        return True
    return any(SequenceMatcher(None, target, name).ratio() >= _ALIKE for name in names)


def _plain(text: str) -> str:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.sub(r"[^\w]+", " ", spaced).strip().lower()


def _update(updates: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(updates) == 1:
        return {"tool": "propose_update_node", "arguments": updates[0]}
    actions = [{"type": "update_node", "payload": update} for update in updates]
    return {"tool": "propose_batch", "arguments": {"actions": actions}}


def _respell(node: Node, target: str, name: str | None) -> Mapping[str, Any] | None:
    """Returns the tool call that corrects the spelling of `target` to `name` in a node.

    Returns None if `name` is None or a field cannot be addressed by a dotted path.
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
