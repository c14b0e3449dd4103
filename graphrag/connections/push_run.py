"""Carries out one push: sends it once, reads what became of it, and puts back what the server
refused.

What a server answers to a write proves little: it may refuse what it stored, and may have stored
what it never answered. So only what is read afterwards counts. The push is stored as `sent` before
the request leaves; after a stop of this process the server's document tells how it ended, and the
request is never repeated without having read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from graphrag.connections.document_patch import (
    MISSING,
    PatchConflict,
    Path,
    SecretInChange,
    is_same,
    patched,
    shown_path,
    value_at,
    value_digest,
    with_value,
)
from graphrag.connections.editor import Editor, PushRemark, RemoteDocument, WriteAnswer
from graphrag.connections.errors import EditorFault
from graphrag.connections.push_plan import FORMATS, PushPlan, PushStopped
from graphrag.connections.server_connections import ServerSession
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.connections.stored_push import Push, PushState, StoredRemark, path_of
from graphrag.importers.export import file_without_secrets
from graphrag.importers.json_values import as_dict, as_list
from graphrag.workers import run_limited

log = logging.getLogger(__name__)

CARRIED_OUT_MS = 3_000
"""After this time a server has carried out a request whose sender is gone, or never will."""
MAX_PLACES = 5
MAX_TRIES = 5
"""Times that a push is planned anew because somebody else wrote first."""
READ_AGAIN_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Waits before the tries to read what became of a write."""

ADDED = "webhookId"
"""A field that n8n adds to a node that is called by an address."""
_CONTENT = ("name", "description", "nodes", "connections", "settings", "pinData", "nodeGroups")


class StorePush(Protocol):
    """Stores fields of a push and returns it with them."""

    async def __call__(self, push: Push, **update: Any) -> Push: ...


async def ended(
    store: StorePush,
    push: Push,
    state: PushState,
    remark: PushRemark | None,
    *,
    now: int,
    **update: Any,
) -> Push:
    """Stores how a push ended, with the reason why it did not end as asked."""
    reason = StoredRemark(code=remark.code, facts=dict(remark.facts)) if remark else None
    if (push.state, push.reason) == (state, reason):  # still unknown
        return push
    return await store(push, state=state, reason=reason, ended_time=now, **update)


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterWrite:
    """What a server holds after a write. `without` is its document without secrets."""

    read: RemoteDocument
    without: Any


async def carried_out(push: Push, clock: Callable[[], int]) -> None:
    """Waits until the server has carried out what a stopped sender sent, or never will."""
    await asyncio.sleep(max(0, (push.sent_time or 0) + CARRIED_OUT_MS - clock()) / 1000)


class PushRun:
    """Sends one push and settles it. `store` keeps it with each new state."""

    def __init__(
        self,
        session: ServerSession,
        link: ConnectionLink,
        *,
        store: StorePush,
        replan: Callable[[], Awaitable[PushPlan]],
        seal: Callable[[PushPlan], str | None],
        clock: Callable[[], int],
    ) -> None:
        self._session = session
        self._link = link
        self._store = store
        self._replan = replan
        self._seal = seal
        self._clock = clock

    @property
    def _editor(self) -> Editor:
        return self._session.editor

    async def send(self, push: Push) -> Push:
        """Sends a decided push and returns it as it ended. Raises: EditorFault before the write."""
        for _ in range(MAX_TRIES):
            try:
                plan = await self._replan()
            except PushStopped as stop:
                return await self._ended(push, stop.state, stop.remark)
            if plan.digest != push.changes_digest:
                return await self._ended(push, "failed", PushRemark(code="push_stale"))
            if plan.preflight.problems:
                return await self._ended(push, "failed", plan.preflight.problems[0])
            push = await self._store(
                push,
                state="sent",
                sent_time=self._clock(),
                tokens_before=dict(plan.read.workflow.tokens),
                sealed_documents=await run_limited(self._seal, plan),
            )
            answer = await self._written(plan.read, plan.target)
            if answer is None or not answer.is_conflict:
                return await self._settled(push, plan, answer)
        return await self._ended(push, "failed", PushRemark(code="push_always_late"))

    async def settle(self, push: Push, plan: PushPlan | None) -> Push:
        """Returns a push whose sender stopped, as the server's document shows that it ended.

        `plan` is what was sent; None where no copy of the documents was kept.
        """
        if push.sent_time is None:
            return await self._ended(push, "failed", PushRemark(code="push_not_applied"))
        await carried_out(push, self._clock)
        if plan is not None:
            return await self._settled(push, plan, None)
        reading = await self._reading()
        if reading is None:
            return await self._ended(push, "unknown", PushRemark(code="push_unread"))
        values = [
            (change, value_digest(value_at(reading.without, path_of(change))))
            for change in push.changes
        ]
        if all(value == change.after_digest for change, value in values):
            return await self._verified(push, reading, None)
        if all(value == change.before_digest for change, value in values):
            return await self._ended(push, "failed", PushRemark(code="push_not_applied"))
        return await self._ended(push, "unknown", PushRemark(code="push_changed_since"))

    async def _written(self, read: RemoteDocument, target: Any) -> WriteAnswer | None:
        """Returns the server's answer to a write, None where none came that can be read."""
        try:
            return await self._editor.write(read, target)
        except EditorFault as fault:
            log.info("push_without_answer", extra={"code": fault.code})
            return None

    async def _settled(self, push: Push, plan: PushPlan, answer: WriteAnswer | None) -> Push:
        """Returns a push as the server's document shows that it ended."""
        reading = await self._reading()
        if reading is None:
            return await self._ended(push, "unknown", PushRemark(code="push_unread"))
        is_refused = answer is not None and 400 <= answer.status < 500
        reason = PushRemark(code="push_refused", facts={"reason": _reason(answer)})
        if answer is not None and answer.status in (401, 403) and not answer.is_page:
            reason = PushRemark(code="push_read_only")
        if await run_limited(_holds, reading, plan.target, plan):
            if is_refused:
                return await self._put_back(push, plan, reading, reason)
            return await self._proven(push, plan, reading)
        if await run_limited(_holds, reading, plan.read.document, plan):
            if answer is None:
                reason = PushRemark(code="push_not_applied")
            return await self._ended(push, "failed", reason)
        places = ", ".join(
            shown_path(change.path, plan.names)
            for change in plan.changes[:MAX_PLACES]
            if not _is_written(
                value_at(reading.read.document, change.path), value_at(plan.target, change.path)
            )
        )
        return await self._ended(
            push, "unknown", PushRemark(code="push_undone_there", facts={"places": places})
        )

    async def _put_back(
        self, push: Push, plan: PushPlan, reading: AfterWrite, reason: PushRemark
    ) -> Push:
        """Restores the document of before, unless somebody wrote since."""
        if not await run_limited(_is_same_content, reading, plan):
            return await self._ended(push, "unknown", PushRemark(code="push_changed_since"))
        await self._written(reading.read, plan.read.document)
        restored = await self._reading()
        if restored is not None and _holds(restored, plan.read.document, plan):
            return await self._ended(push, "rolled_back", reason)
        return await self._ended(push, "unknown", PushRemark(code="push_not_restored"))

    async def _proven(self, push: Push, plan: PushPlan, reading: AfterWrite) -> Push:
        """Verifies a push that is there, and saves versions that it replaced unseen."""
        read = plan.read
        target = plan.target
        for _ in range(MAX_TRIES):
            unseen = await self._editor.unseen_version(read, target)
            if unseen is None:
                return await self._verified(push, reading, plan)
            try:
                both = await run_limited(patched, unseen, plan.before, plan.after)
            except (PatchConflict, SecretInChange) as exc:
                return await self._given_back(push, plan, reading, unseen, exc.paths)
            await self._written(reading.read, both)
            read = reading.read
            target = both
            merged = await self._reading()
            if merged is None:
                return await self._ended(push, "unknown", PushRemark(code="push_unread"))
            if not await run_limited(_holds, merged, plan.target, plan):
                return await self._ended(push, "unknown", PushRemark(code="push_changed_since"))
            reading = merged
        return await self._ended(push, "unknown", PushRemark(code="push_always_late"))

    async def _given_back(
        self, push: Push, plan: PushPlan, reading: AfterWrite, unseen: Any, paths: Sequence[Path]
    ) -> Push:
        """Restores a version of somebody else that changed the same fields; theirs stays."""
        await self._written(reading.read, unseen)
        restored = await self._reading()
        if restored is None or _holds(restored, plan.target, plan):
            return await self._ended(push, "unknown", PushRemark(code="push_not_restored"))
        await self._session.pull.merged(self._link)
        places = ", ".join(shown_path(path, plan.names) for path in paths[:MAX_PLACES])
        remark = PushRemark(code="push_overlap", facts={"places": places})
        return await self._ended(push, "failed", remark)

    async def _verified(self, push: Push, reading: AfterWrite, plan: PushPlan | None) -> Push:
        """Ends a push that is there, and takes what the server holds now as the common base."""
        await self._session.pull.merged(self._link)
        is_foreign = plan is not None and not await run_limited(_is_same_content, reading, plan)
        remark = PushRemark(code="push_more_there") if is_foreign else None
        update: dict[str, Any] = {"tokens_after": dict(reading.read.workflow.tokens)}
        if plan is not None:
            completed = await run_limited(_completed, plan, reading)
            update["sealed_documents"] = await run_limited(self._seal, completed)
        return await self._ended(push, "verified", remark, **update)

    async def _ended(
        self, push: Push, state: PushState, remark: PushRemark | None, **update: Any
    ) -> Push:
        if state not in ("verified", "unknown"):  # nothing of it is there to be taken back
            update["sealed_documents"] = None
        return await ended(self._store, push, state, remark, now=self._clock(), **update)

    async def _reading(self) -> AfterWrite | None:
        """Returns what the server holds, None where it cannot be read or has it no more."""
        for wait_s in READ_AGAIN_S:
            await asyncio.sleep(wait_s)
            try:
                read = await self._editor.read(self._link.workflow_id)
            except EditorFault as fault:
                if fault.is_about_key:
                    return None
                continue
            if read is None:
                return None
            form = FORMATS[self._session.connection.kind]
            without = await run_limited(file_without_secrets, form, read.document)
            return AfterWrite(read=read, without=without)
        return None


def _holds(reading: AfterWrite, wanted: Any, plan: PushPlan) -> bool:
    """Returns whether all fields of a push have the values of `wanted` on the server."""
    return all(
        _is_written(value_at(reading.read.document, change.path), value_at(wanted, change.path))
        for change in plan.changes
    )


def _is_written(value: Any, wanted: Any) -> bool:
    """Returns whether a value was written, with the id of a webhook that n8n may have added."""
    fields, others = as_dict(value), as_dict(wanted)
    if fields is not None and others is not None and ADDED in fields and ADDED not in others:
        value = {name: item for name, item in fields.items() if name != ADDED}
    return is_same(value, wanted)


def _completed(plan: PushPlan, reading: AfterWrite) -> PushPlan:
    """Returns a plan whose target has what the server added to the fields that were written."""
    target = plan.target
    for change in plan.changes:
        value = value_at(reading.read.document, change.path)
        if value is not MISSING and not is_same(value, value_at(target, change.path)):
            target = with_value(target, change.path, value)
    return replace(plan, target=target)


def _reason(answer: WriteAnswer | None) -> str:
    if answer is None:
        return ""
    return answer.reason or f"HTTP {answer.status}"


def _is_same_content(reading: AfterWrite, plan: PushPlan) -> bool:
    """Returns whether the server holds what was written, and no change of anybody else."""
    return is_same(_content(reading.read.document), _content(plan.target))


def _content(document: Any) -> Any:
    """Returns what people made of a document, without what a server adds at each write."""
    fields = as_dict(document)
    if fields is None:
        return document
    content = {name: fields[name] for name in _CONTENT if fields.get(name) is not None}
    nodes = [as_dict(node) or {} for node in as_list(content.get("nodes")) or []]
    content["nodes"] = [
        {name: value for name, value in node.items() if name != ADDED} for node in nodes
    ]
    return content
