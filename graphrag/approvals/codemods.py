"""Codemods: one replacement over many graphs, proposed, decided and undone together.

Each graph's part is an ordinary proposal, so that it is reviewed, decided, audited and undone as
any other, in a transaction of its own: a part whose nodes were edited since is out of date, and the
others go through. The parts share the id of the codemod, which stands in the place of their
conversation. There is no record of the codemod itself: what was interrupted goes on when it is
asked for again, with the parts that are left.

Decision: the value is replaced literally, where what stands around it is no part of a longer one,
and only in the texts by which a node is known to refer to it.
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
LISTED = 1_000
"""So many of the latest changes are looked at for a list of codemods."""
MAX_PATHS = 50
"""Of a node with more texts to change all data are replaced."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OF_ONE_GRAPH = (ApprovalError, SourceError, MalformedProposal)
"""What is wrong with one part is in no other's way."""
_ANY_CASE: frozenset[UseKind] = frozenset({"url", "host", "table"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What to replace, by what: in all graphs, or in those named.
    Raises: BadUseValue, CodemodRefused.
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
        """What each part says that it is for."""
        return f"{self.old.strip()} → {self.new.strip()}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPart:
    """What became of one graph: its proposal, or why there is none."""

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
    """Proposes, decides and undoes codemods of one workspace."""

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    async def propose(
        self, wanted: Replacement, by: Person, codemod_id: str | None = None
    ) -> Codemod:
        """Propose the replacement in each graph with the value; with an id, in those left
        out so far.

        Raises: NotAllowed, ApprovalNotFound, CodemodRefused where none or too many refer
        to the value.
        """
        self._approvals.check(by, "editor", "proposing_needs_editor", about=codemod_id or "")
        known = await self._parts(codemod_id, by) if codemod_id else []
        if any((part.asker, part.reason) != (by.user_id, clean(wanted.reason)) for part in known):
            raise CodemodRefused(code="codemod_is_another", value=wanted.old[:80])
        chosen = codemod_id or f"{PREFIX}{secrets.token_hex(12)}"
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
        have = {approval.graph_key for approval in known}
        parts = [_part(approval) for approval in known]
        for graph_key, found in by_graph.items():
            if graph_key not in have:
                parts.append(await self._propose_part(chosen, wanted, graph_key, found, by))
        return Codemod(id=chosen, parts=sorted(parts, key=lambda part: part.graph_key))

    async def _propose_part(
        self,
        codemod_id: str,
        wanted: Replacement,
        graph_key: str,
        found: Iterable[FoundNode],
        by: Person,
    ) -> GraphPart:
        def made() -> list[dict[str, Any]]:
            changes = (
                {"nodeKey": one.node.key, "changes": changes_of(one.node, wanted)} for one in found
            )
            return [
                {"type": "update_node", "payload": change}
                for change in changes
                if change["changes"]
            ]

        actions = await asyncio.to_thread(made)  # of a thousand nodes it takes a second
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
        except _OF_ONE_GRAPH as exc:
            return GraphPart(graph_key=graph_key, refused=exc)

    async def latest(self, by: Person) -> list[Codemod]:
        """Return the codemods among the latest LISTED changes, newest first, with the
        parts that are.
        """
        found = defaultdict[str, list[GraphPart]](list)
        for approval in await self._approvals.list(limit=LISTED, by=by):
            if approval.codemod_id and approval.undoes is None:
                found[approval.codemod_id].append(_part(approval))
        return [Codemod(id=key, parts=parts) for key, parts in found.items()]

    async def get(self, codemod_id: str, by: Person) -> Codemod:
        """Return a codemod with its parts as they stand. Raises: ApprovalNotFound."""
        return Codemod(id=codemod_id, parts=[_part(a) for a in await self._parts(codemod_id, by)])

    async def decide(
        self,
        codemod_id: str,
        decision: Approve | Reject,
        by: Person,
        graphs: Sequence[str] | None = None,
    ) -> Codemod:
        """Decide the parts that wait: all, or those of some graphs. A part that is decided stays
        as it is.

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
        """Take back what was applied and stands: in all graphs, or in some.

        Raises: ApprovalNotFound, NotAllowed (then nothing is taken back).
        """
        done: list[GraphPart] = []
        parts = await self._parts(codemod_id, by)
        standing = [
            approval
            for approval in parts
            if (approval.status, approval.undone_by) == ("applied", None)
            and (graphs is None or approval.graph_key in graphs)
        ]
        self._check_allowed(standing, by)
        for approval in parts:
            result: Approval | Exception | None = None
            if approval in standing:
                try:
                    result = await self._approvals.undo(approval.graph_key, approval.id, by=by)
                except _OF_ONE_GRAPH as exc:
                    result = exc
            done.append(_part(approval, result))
        return Codemod(id=codemod_id, parts=done)

    def _check_allowed(self, parts: Iterable[Approval], by: Person) -> None:
        """Raises: NotAllowed, where a person may not decide one of the parts."""
        for approval in parts:
            check_permission(self._approvals.context, approval, by)

    async def _parts(self, codemod_id: str, by: Person) -> list[Approval]:
        """Return the parts by graph; undos of them are none."""
        found: list[Approval] = []
        if codemod_id.startswith(PREFIX):
            found = await self._approvals.list(thread_id=codemod_id, limit=2 * MAX_GRAPHS, by=by)
        parts = [approval for approval in found if approval.codemod_id and approval.undoes is None]
        if not parts:
            raise ApprovalNotFound(approval_id=codemod_id)
        return sorted(parts, key=lambda approval: (approval.graph_key, approval.created))


def _part(approval: Approval, result: Approval | Exception | None = None) -> GraphPart:
    """Return what became of a proposal: `result` where something was done with it."""
    refused = result if isinstance(result, Exception) else None
    current = result if isinstance(result, Approval) else approval
    return GraphPart(graph_key=approval.graph_key, approval=current, refused=refused)


def changes_of(node: Node, wanted: Replacement) -> dict[str, Any]:
    """Return what to change of a node, new values by path; nothing where the value stands
    in no text.
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
    """Return the text with the value replaced wherever it stands by itself."""
    old = wanted.old.strip()
    new = wanted.new.strip()
    after = r"(?![\w-]|\.\w)" if use.kind in ("url", "host") else r"(?![\w-])"
    if old.endswith("/"):
        after = ""
    flags = re.IGNORECASE if use.kind in _ANY_CASE else 0
    before = r"(?<![\w.-])" if use.kind in ("url", "host") else r"(?<![\w-])"
    return re.sub(rf"{before}{re.escape(old)}{after}", lambda _: new, text, flags=flags)


def _root(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the longest beginning of a path that can be written with dots."""
    safe = next((at for at, part in enumerate(path) if not part or "." in part), len(path))
    return path[: max(1, safe)]
