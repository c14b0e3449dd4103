"""Codemods: one replacement over many graphs, proposed, decided and undone together.

The part of each graph is an ordinary proposal, which is reviewed, decided, audited and undone like
any other, in its own transaction. If nodes of a part are edited later, only this part is outdated.
The parts share the id of the codemod, which is stored instead of a conversation. There is no record
of the codemod itself: an interrupted one continues with the remaining parts when it is requested
again.

Decision: the value is replaced literally, where it is not part of a longer value, and only in texts
in which a node is known to refer to it.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from datasources.errors import SourceError
from datasources.everywhere import FoundNode
from datasources.types import Node
from datasources.uses import MAX_VALUE, Use, UseKind, entries_for, matches, uses_of
from graphrag.approvals.approval import Approval, Approve, Reject, clean
from graphrag.approvals.approval_service import Approvals
from graphrag.approvals.decisions import check_permission
from graphrag.approvals.errors import ApprovalError, ApprovalNotFound, CodemodRefused
from graphrag.approvals.proposing import CHAT_SESSION, Asked
from graphrag.roles import Person
from tools.actions.field_changes import json_document, value_at
from tools.proposals import MalformedProposal

PREFIX = "cm_"
MAX_GRAPHS = 1_000
MAX_NODES = 20_000
LISTED = 1_000  # Number of the latest changes that are searched for codemods.
# If more fields of a node change, its top-level fields are replaced as a whole.
MAX_PATHS = 50
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Errors that affect only the part of one graph.
_PART_ERRORS = (ApprovalError, SourceError, MalformedProposal)
_ANY_CASE: frozenset[UseKind] = frozenset({"url", "host", "table"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A value and its replacement, in all graphs or only in `graphs`. Raises: BadUseValue,
    CodemodRefused.
    """

    old: str
    new: str
    kind: UseKind | None = None
    graphs: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        entries_for(self.old, self.kind)
        new = self.new.strip()
        if not new or len(new) > MAX_VALUE or _CONTROL.search(new) or new == self.old.strip():
            raise CodemodRefused(code="codemod_new_value", most=MAX_VALUE)

    @property
    def reason(self) -> str:
        """The reason in each proposal."""
        return f"{self.old.strip()} → {self.new.strip()}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """The part of one graph: its proposal, or the error that prevented it."""

    graph_key: str
    approval: Approval | None = None
    refused: Exception | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Codemod:
    id: str
    parts: Sequence[GraphPart]


@final
class Codemods:
    """Proposes, decides and undoes the codemods of one workspace."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def propose(
        self, wanted: Replacement, by: Person, codemod_id: str | None = None
    ) -> Codemod:
        """Proposes the replacement in each graph that contains the value. With the id of an earlier
        codemod, continues it in the remaining graphs.

        Raises: NotAllowed, ApprovalNotFound, CodemodRefused if no nodes or too many refer to the
        value, or if the id belongs to another replacement.
        """
        self._approvals.check(by, "editor", "proposing_needs_editor", about=codemod_id or "")
        earlier = await self._parts(codemod_id, by) if codemod_id else []
        if any((part.asker, part.reason) != (by.user_id, clean(wanted.reason)) for part in earlier):
            raise CodemodRefused(code="codemod_is_another", value=wanted.old[:80])
        chosen_id = codemod_id or f"{PREFIX}{secrets.token_hex(12)}"
        entries = entries_for(wanted.old, wanted.kind)
        users = await self._approvals.source.find_users(
            entries, limit=MAX_NODES + 1, graphs=wanted.graphs
        )
        by_graph = defaultdict[str, list[FoundNode]](list)
        for one in users:
            by_graph[one.graph_key].append(one)
        if not by_graph or len(by_graph) > MAX_GRAPHS or len(users) > MAX_NODES:
            code = "codemod_too_large" if by_graph else "codemod_nothing"
            raise CodemodRefused(
                code=code, value=wanted.old[:80], graphs=MAX_GRAPHS, nodes=MAX_NODES
            )
        proposed_graphs = {approval.graph_key for approval in earlier}
        parts = [_part(approval) for approval in earlier]
        for graph_key, nodes in by_graph.items():
            if graph_key not in proposed_graphs:
                parts.append(await self._propose_part(chosen_id, wanted, graph_key, nodes, by))
        return Codemod(id=chosen_id, parts=sorted(parts, key=lambda part: part.graph_key))

    async def _propose_part(
        self,
        codemod_id: str,
        wanted: Replacement,
        graph_key: str,
        nodes: Iterable[FoundNode],
        by: Person,
    ) -> GraphPart:
        def updates() -> list[dict[str, Any]]:
            changes = (
                {"nodeKey": one.node.key, "changes": changes_of(one.node, wanted)} for one in nodes
            )
            return [
                {"type": "update_node", "payload": change}
                for change in changes
                if change["changes"]
            ]

        actions = await asyncio.to_thread(updates)  # takes about a second for a thousand nodes
        asked = Asked(
            graph_key=graph_key,
            thread_id=codemod_id,
            tool_call_id=codemod_id,
            asker=by,
            reason=wanted.reason,
            session=replace(CHAT_SESSION, codemod_id=codemod_id),
        )
        try:
            if not actions:
                raise CodemodRefused(code="codemod_not_literal", value=wanted.old[:80])
            batch = {"type": "batch", "payload": {"actions": actions}}
            return _part(await self._approvals.propose(batch, asked))
        except _PART_ERRORS as exc:
            return GraphPart(graph_key=graph_key, refused=exc)

    async def latest(self, by: Person) -> list[Codemod]:
        """Returns the codemods among the latest LISTED changes, newest first, with the parts among
        them.
        """
        by_codemod = defaultdict[str, list[GraphPart]](list)
        for approval in await self._approvals.list(limit=LISTED, by=by):
            if approval.codemod_id and approval.undoes is None:
                by_codemod[approval.codemod_id].append(_part(approval))
        return [Codemod(id=key, parts=parts) for key, parts in by_codemod.items()]

    async def get(self, codemod_id: str, by: Person) -> Codemod:
        """Returns a codemod with the current state of its parts. Raises: ApprovalNotFound."""
        return Codemod(id=codemod_id, parts=[_part(a) for a in await self._parts(codemod_id, by)])

    async def decide(
        self,
        codemod_id: str,
        decision: Approve | Reject,
        by: Person,
        graphs: Sequence[str] | None = None,
    ) -> Codemod:
        """Decides the pending parts of all graphs, or of some. Decided parts do not change.

        Raises: ApprovalNotFound, NotAllowed (then none is decided).
        """
        parts = await self._parts(codemod_id, by)
        waiting = [a for a in parts if a.is_open and (graphs is None or a.graph_key in graphs)]
        self._check_allowed(waiting, by)
        results = dict(await self._approvals.decide_all(waiting, decision, by))
        return Codemod(id=codemod_id, parts=[_part(a, results.get(a.id)) for a in parts])

    async def undo(
        self, codemod_id: str, by: Person, graphs: Sequence[str] | None = None
    ) -> Codemod:
        """Undoes the applied parts of all graphs, or of some.

        Raises: ApprovalNotFound, NotAllowed (then nothing is undone).
        """
        done: list[GraphPart] = []
        parts = await self._parts(codemod_id, by)
        undoable = [
            approval
            for approval in parts
            if (approval.status, approval.undone_by) == ("applied", None)
            and (graphs is None or approval.graph_key in graphs)
        ]
        self._check_allowed(undoable, by)
        for approval in parts:
            result: Approval | Exception | None = None
            if approval in undoable:
                try:
                    result = await self._approvals.undo(approval.graph_key, approval.id, by=by)
                except _PART_ERRORS as exc:
                    result = exc
            done.append(_part(approval, result))
        return Codemod(id=codemod_id, parts=done)

    def _check_allowed(self, parts: Iterable[Approval], by: Person) -> None:
        """Raises: NotAllowed if the person may not decide one of the parts."""
        for approval in parts:
            check_permission(self._approvals.context, approval, by)

    async def _parts(self, codemod_id: str, by: Person) -> list[Approval]:
        """Returns the parts by graph, without undos of parts."""
        approvals: list[Approval] = []
        if codemod_id.startswith(PREFIX):
            approvals = await self._approvals.list(
                thread_id=codemod_id, limit=2 * MAX_GRAPHS, by=by
            )
        parts = [
            approval for approval in approvals if approval.codemod_id and approval.undoes is None
        ]
        if not parts:
            raise ApprovalNotFound(approval_id=codemod_id)
        return sorted(parts, key=lambda approval: (approval.graph_key, approval.created))


def _part(approval: Approval, result: Approval | Exception | None = None) -> GraphPart:
    """Returns the part of a proposal. `result`: the result of an operation on it."""
    refused = result if isinstance(result, Exception) else None
    current = result if isinstance(result, Approval) else approval
    return GraphPart(graph_key=approval.graph_key, approval=current, refused=refused)


def changes_of(node: Node, wanted: Replacement) -> dict[str, Any]:
    """Returns the changes of a node, new values by path; empty if none of its texts contains the
    value.
    """
    entries = frozenset(entries_for(wanted.old, wanted.kind))
    document = json_document(node)
    paths: dict[tuple[str, ...], None] = {}
    for use in uses_of(node):
        if use.path == ("type",) or not matches(use, entries):
            continue
        holder: Any = value_at(document, use.path[:-1])
        last: Any = int(use.path[-1]) if isinstance(holder, list) else use.path[-1]
        before = str(value_at(document, use.path))
        text = replaced(before, use, wanted)
        if text != before:
            holder[last] = text
            paths[use.path] = None
    roots = dict.fromkeys(_root(path) for path in paths)
    if len(roots) > MAX_PATHS:
        roots = dict.fromkeys(path[:1] for path in paths)
    return {".".join(root): value_at(document, root) for root in roots}


def replaced(text: str, use: Use, wanted: Replacement) -> str:
    """Returns the text with each occurrence replaced that is not part of a longer value."""
    old = wanted.old.strip()
    new = wanted.new.strip()
    after = r"(?![\w-]|\.\w)" if use.kind in ("url", "host") else r"(?![\w-])"
    if old.endswith("/"):
        after = ""
    flags = re.IGNORECASE if use.kind in _ANY_CASE else 0
    before = r"(?<![\w.-])" if use.kind in ("url", "host") else r"(?<![\w-])"
    return re.sub(rf"{before}{re.escape(old)}{after}", lambda _: new, text, flags=flags)


def _root(path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the longest beginning of a path that can be written with dots."""
    safe = next((at for at, part in enumerate(path) if not part or "." in part), len(path))
    return path[: max(1, safe)]
