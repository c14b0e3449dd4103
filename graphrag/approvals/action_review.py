"""Reviews a proposed action: validates it, fills in what it leaves open, and previews its changes.

The review also returns hashes of the content that the action depends on. They show whether a stored
proposal is outdated. Each hash covers as little as possible: a changed field, a position, the
handles at the end of an edge. So other changes of the same node do not invalidate a proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from datasources.errors import BadDocument, InstructionError, InvalidMutation
from datasources.mutations import Existing, check_mutation
from datasources.types import Mutation, Node
from graphrag.approvals.applied_change import to_mutation
from graphrag.approvals.converter import ActionConversion, Ids, convert_action, new_id
from graphrag.approvals.errors import ProposalRefused
from graphrag.approvals.preview import preview_of
from graphrag.layout import TooMuchToArrange
from tools.actions.field_changes import path_of, value_at
from tools.base import Problem
from tools.proposals import Action, hash_of, parse_action, single_actions
from tools.write_tools import Snapshot, broken_references, resolve_action, with_references

ABSENT = "absent"  # Used instead of a hash if the content does not exist.
_NOTHING = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """The result of a successful review.

    `action` is final: reviewing it again on the same graph gives the same mutation. `touched`:
    hashes of the content that it depends on.
    """

    action: Action
    conversion: ActionConversion
    mutation: Mutation
    preview: Mapping[str, Any]
    touched: Mapping[str, str]


def review(
    action: Action | Mapping[str, Any], snapshot: Snapshot, *, ids: Ids = new_id
) -> Reviewed:
    """Validates an action on a graph and computes its changes, without writing anything.

    Raises: ProposalRefused with the problems; MalformedProposal if it is not an action.
    """
    resolved, faults = resolve_action(parse_action(action), snapshot)
    if faults:
        raise ProposalRefused(problems=faults)
    own_types = {c.key for c in snapshot.types.values() if c.workspace == snapshot.graph.workspace}
    existing = Existing(nodes=snapshot.nodes.keys(), edges=snapshot.edges.keys(), configs=own_types)
    try:
        conversion = convert_action(with_references(resolved, snapshot), snapshot, ids)
        final = conversion.choices_in(resolved)
        mutation = to_mutation(conversion, snapshot)
        check_mutation(mutation, graph=snapshot.graph, existing=existing)  # as every store does
    except (InstructionError, BadDocument, InvalidMutation, TooMuchToArrange) as exc:
        raise ProposalRefused(problems=[Problem(what=str(exc))]) from exc
    preview = preview_of(snapshot, mutation, broken_references(resolved, snapshot))
    sheet_problem = _sheet_problem(conversion, snapshot)
    if sheet_problem is not None or not preview:
        what = sheet_problem or "this changes nothing: the graph is like that already"
        raise ProposalRefused(problems=[Problem(what=what)])
    return Reviewed(
        action=final,
        conversion=conversion,
        mutation=mutation,
        preview=preview,
        touched=touched(final, snapshot),
    )


def _sheet_problem(conversion: ActionConversion, snapshot: Snapshot) -> str | None:
    """Returns a message if a new edge connects two sheets, else None. Called after the sheets were
    chosen.
    """
    nodes: dict[str, Node] = {**snapshot.nodes, **conversion.new_nodes}
    for edge in conversion.new_edges:
        source = nodes[edge.source]
        target = nodes[edge.target]
        if {source.sheet, target.sheet} != {edge.sheet}:
            return (
                f"an edge stays on one sheet, but {source.key} is on sheet {source.sheet}"
                f" and {target.key} on sheet {target.sheet}"
            )
    return None


def touched(action: Action, snapshot: Snapshot) -> dict[str, str]:
    """Returns hashes of all content that a final action depends on, by name.

    A rename also depends on the fields that refer to the node by its name.

    Shapes: `field/NODE/data.name`, `content/NODE`, `position/NODE`, `handles/NODE`, `edges/NODE`,
    `edge/KEY`, `type/NAME`, `sheet/ID`, `sheet-name/ID`, `graph/FIELD`.
    """
    hashes: dict[str, str] = {}
    for _, single in single_actions(with_references(action, snapshot)):
        for name in single.rests_on():
            kind, _, key = name.partition("/")
            value = _VALUES[kind](key, snapshot)
            hashes[name] = ABSENT if value is _NOTHING else hash_of(value)
    return dict(sorted(hashes.items()))


def changed_since(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Returns the names of the hashes that differ."""
    return sorted(name for name in before if now.get(name, ABSENT) != before[name])


def _field(key: str, snapshot: Snapshot) -> Any:
    """Returns a field of a node. A node's key may contain slashes, so the longest existing key is
    used.
    """
    parts = key.split("/")
    for count in range(len(parts) - 1, 0, -1):
        node = snapshot.nodes.get("/".join(parts[:count]))
        if node is not None:
            return _value(node.to_document(), path_of("/".join(parts[count:])))
    return _NOTHING


def _value(document: Mapping[str, Any], path: Sequence[str]) -> Any:
    """Returns the value at a path. If the path leads through a value that is not an object, returns
    that value: the change would replace it by an object.
    """
    for size in range(1, len(path)):
        value = value_at(document, path[:size], None)
        if not isinstance(value, dict | list):
            return [*path[:size], value]
    return value_at(document, path, _NOTHING)


def _of_node(value: Callable[[Node, Snapshot], Any]) -> Callable[[str, Snapshot], Any]:
    def of_node(key: str, snapshot: Snapshot) -> Any:
        node = snapshot.nodes.get(key)
        return _NOTHING if node is None else value(node, snapshot)

    return of_node


def _position(node: Node, _: Snapshot) -> Any:
    document = node.to_document()
    return [document.get(name) for name in ("posX", "posY", "sheet")]


def _content(node: Node, _: Snapshot) -> Any:
    return {
        name: value for name, value in node.to_document().items() if name not in ("posX", "posY")
    }


def _handles(node: Node, snapshot: Snapshot) -> Any:
    config = None if node.handles else snapshot.type_of(node.type)
    handles = node.to_document().get("handles")
    return [handles, node.sheet, config.to_document()["node"] if config else None]


def _edges(node: Node, snapshot: Snapshot) -> Any:
    edges = snapshot.edges_of({node.key})
    return [edges[name].to_document() for name in sorted(edges)]


def _document(element: Any) -> Any:
    return _NOTHING if element is None else element.to_document()


# The content of each kind of hash, by the key in its name.
_VALUES: Final[Mapping[str, Callable[[str, Snapshot], Any]]] = {
    "field": _field,
    "content": _of_node(_content),
    "position": _of_node(_position),
    "handles": _of_node(_handles),
    "edges": _of_node(_edges),
    "edge": lambda key, snapshot: _document(snapshot.edges.get(key)),
    "type": lambda name, snapshot: _document(snapshot.type_of(name)),
    "sheet": lambda key, snapshot: key if key in snapshot.graph.sheets_list else _NOTHING,
    "sheet-name": lambda key, snapshot: snapshot.graph.sheets_list.get(key),
    "graph": lambda name, snapshot: snapshot.graph.to_document().get(name),
}
