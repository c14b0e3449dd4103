"""Follows renames and deletions in the nodes that refer to a node by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from datasources.errors import BadDocument, InstructionError
from datasources.types import Node, parse_document
from tools import proposals
from tools.actions.field_changes import changed_node, json_document
from tools.actions.snapshot import Snapshot
from tools.proposal_parts import UpdateNode
from tools.references import (
    NOTE_TYPE,
    Path,
    Reference,
    by_name,
    name_of,
    references,
    renamed,
    texts_of,
)

MAX_PATHS = 100
"""A node with more fields that change is written as a whole."""


def with_references(action: proposals.Action, snapshot: Snapshot) -> proposals.Action:
    """Returns the action and, for every rename in it, the changes of the fields that use
    the old name.

    The action itself where there is none, or where it cannot be carried out.
    """
    try:
        after = _after(action, snapshot)
    except (InstructionError, BadDocument):
        return action
    names = _given_up(action, snapshot, after)
    renames = {old: new for old, new in names.items() if new is not None}
    more: list[proposals.SingleAction] = []
    for node in _staying(action, snapshot, after) if renames else ():
        changes = _changes(node, renames)
        if changes:
            payload = UpdateNode.model_construct(node_key=node.key, changes=changes, patches=None)
            more.append(
                proposals.UpdateNodeAction.model_construct(type="update_node", payload=payload)
            )
    if not more:
        return action
    singles = [single for _, single in proposals.single_actions(action)]
    return proposals.BatchAction(payload=proposals.Batch.model_construct(actions=[*singles, *more]))


def broken_references(action: proposals.Action, snapshot: Snapshot) -> list[Reference]:
    """Returns the references that lead nowhere once the action is carried out."""
    try:
        after = _after(action, snapshot)
    except (InstructionError, BadDocument):
        return []
    names = [name for name, new in _given_up(action, snapshot, after).items() if new is None]
    return list(references(_staying(action, snapshot, after), names)) if names else []


def _after(action: proposals.Action, snapshot: Snapshot) -> dict[str, Node]:
    """Returns the nodes that the action updates, as it leaves them.
    Raises: InstructionError, BadDocument.
    """
    found: dict[str, Node] = {}
    for _, single in proposals.single_actions(action):
        for key, changes in single.effects().updates.items():
            if key in snapshot.nodes:
                found[key] = changed_node(found.get(key, snapshot.nodes[key]), changes)
    return found


def _deleted(action: proposals.Action) -> set[str]:
    singles = (single for _, single in proposals.single_actions(action))
    return {key for single in singles for key in single.effects().deletes}


def _given_up(
    action: proposals.Action, snapshot: Snapshot, after: Mapping[str, Node]
) -> dict[str, str | None]:
    """Returns the names that go, each with the one that comes in its place, where one does.

    A name that another node has already takes nobody's place.
    """
    gone = _deleted(action)
    if not gone and all(
        name_of(snapshot.nodes[key]) == name_of(node) for key, node in after.items()
    ):
        return {}
    meant = by_name(snapshot.graph, snapshot.nodes.values())
    if not meant:
        return {}
    names = Counter(
        name_of(node) for node in _staying(action, snapshot, after) if node.type != NOTE_TYPE
    )
    found: dict[str, str | None] = {}
    for name, node in meant.items():
        if node.key in gone:
            found[name] = None
        elif node.key in after and (new := name_of(after[node.key])) != name:
            # under a name of two, nobody knows which is meant
            found[name] = new if names[new] == 1 else None
    return found


def _staying(
    action: proposals.Action, snapshot: Snapshot, after: Mapping[str, Node]
) -> Iterator[Node]:
    gone = _deleted(action)
    return (after.get(key, node) for key, node in snapshot.nodes.items() if key not in gone)


def _changes(node: Node, renames: Mapping[str, str]) -> dict[str, Any]:
    """Returns the changed fields by path; data as a whole where a path cannot be
    written with dots.
    """
    texts = _renamed_texts(node, renames)
    if len(texts) <= MAX_PATHS and all(part and "." not in part for path in texts for part in path):
        return {".".join(path): text for path, text in sorted(texts.items())}
    document = _with_texts(node, texts)
    return {name: document[name] for name in sorted({path[0] for path in texts})}


def node_with_renames(node: Node, renames: Mapping[str, str]) -> Node:
    """Returns the node with its references to the old names written with the new ones.

    The node itself where it has none.
    """
    texts = _renamed_texts(node, renames)
    return parse_document(Node, _with_texts(node, texts), "nodes") if texts else node


def _renamed_texts(node: Node, renames: Mapping[str, str]) -> dict[Path, str]:
    """Returns the texts that refer to one of the old names, rewritten, by path."""
    paths = {reference.path for reference in references([node], renames)}
    return (
        {path: renamed(text, renames) for path, text in texts_of(node) if path in paths}
        if paths
        else {}
    )


def _with_texts(node: Node, texts: Mapping[Path, str]) -> dict[str, Any]:
    document = json_document(node)
    for path, text in texts.items():
        _put(document, path, text)
    return document


def _put(document: dict[str, Any], path: Path, text: str) -> None:
    holder: Any = document
    for part in path[:-1]:
        holder = holder[_place(holder, part)]
    holder[_place(holder, path[-1])] = text


def _place(holder: Any, part: str) -> str | int:
    return int(part) if isinstance(holder, list) else part
