"""Finds conflicts of open proposals: two change the same field, or one removes what another
changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.answer_body import AnswerBody
from graphrag.approvals.approval import Approval

MAX_CONFLICTS: Final = 200
MAX_CLAIMS: Final = 5_000  # Maximum number of elements of a proposal that are compared.
_KINDS: Final = ("nodes", "edges", "types", "graph")
_WHOLE, _ENDS, _PLACE = "", "\0ends", "position"


@final
class Conflict(AnswerBody):
    """Two open proposals that cannot both be applied as shown.

    Both change this field of an element, or without a field the whole element. `name`: its display
    name.
    """

    ids: list[str]
    graph_key: str
    key: str
    name: str
    field: str = _WHOLE


@final
@dataclass(frozen=True, slots=True)
class _Claim:
    approval: Approval
    part: str
    name: str


def conflicts_of(approvals: Iterable[Approval]) -> list[Conflict]:
    """Returns the conflicting pairs, each once, at most MAX_CONFLICTS. A proposal does not conflict
    with one that it builds on.
    """
    claims: dict[tuple[str, str, str], list[_Claim]] = defaultdict(list)
    conflicts: dict[tuple[str, str], Conflict] = {}
    for approval in approvals:
        for (kind, key, part, name), _ in zip(
            _claims_in(approval.preview), range(MAX_CLAIMS), strict=False
        ):
            others = claims[approval.graph_key, kind, key]
            for other in others:
                if len(conflicts) >= MAX_CONFLICTS:
                    return list(conflicts.values())
                pair = (other.approval.id, approval.id)
                if pair not in conflicts and _conflict(other, approval, part):
                    field = (
                        max(part, other.part, key=len)
                        if _WHOLE not in (part, other.part)
                        else _WHOLE
                    )
                    conflicts[pair] = Conflict(
                        ids=list(pair),
                        graph_key=approval.graph_key,
                        key=key,
                        name=name or other.name,
                        field=field,
                    )
            others.append(_Claim(approval, part, name))
    return list(conflicts.values())


def _conflict(other: _Claim, approval: Approval, part: str) -> bool:
    """Returns whether an approval that changes `part` conflicts with an earlier claim."""
    earlier = other.approval
    if earlier.id == approval.id:
        return False
    if earlier.id in approval.depends_on or approval.id in earlier.depends_on:
        return False
    if part == other.part == _ENDS:  # both only add or remove edges of the node
        return False
    outer, inner = sorted((part, other.part), key=len)
    return outer == _WHOLE or f"{inner}.".startswith(f"{outer}.")


def _claims_in(preview: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yields kind, key, part and name of each change in a preview, and the ends of new and removed
    edges.
    """
    for group, items in preview.items():
        kind = next((kind for kind in _KINDS if group.startswith(kind)), None)
        if kind is None:
            continue
        for item in items:
            key = str(item.get("key") or item.get("_key") or "")
            name = str(item.get("name") or "")
            if group.endswith("Moved"):
                yield kind, key, _PLACE, name
            elif "fields" in item:
                yield from (
                    (kind, key, ".".join(map(str, field["path"])), name) for field in item["fields"]
                )
            else:
                yield kind, key, _WHOLE, name
            if kind == "edges" and "source" in item:
                yield from (("nodes", str(item[end]), _ENDS, "") for end in ("source", "target"))
