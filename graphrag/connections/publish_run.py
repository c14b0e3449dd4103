"""Publishes a draft of a workflow: makes it what runs, after a person has decided that.

Publishing is decided apart from pushing: it makes live what anybody saved since, not only what was
pushed from here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from graphrag.connections.editor import Preflight, PushRemark
from graphrag.connections.errors import EditorFault
from graphrag.connections.push_plan import FORMATS, PushPlan, PushStopped, unfit_code
from graphrag.connections.push_run import READ_AGAIN_S, StorePush, ended
from graphrag.connections.server_connections import ServerSession
from graphrag.connections.stored_connection import ConnectionLink
from graphrag.connections.stored_push import Push, PushState
from graphrag.importers.json_values import Json
from graphrag.workers import run_limited

DRAFT, LIVE = "versionId", "activeVersionId"
"""Tokens of a workflow: the version of its draft, and the one that runs."""


async def plan_publish(
    session: ServerSession, link: ConnectionLink, own_versions: Collection[str]
) -> PushPlan | None:
    """Returns what would go live; None where the draft is what runs.

    `own_versions` are the versions that pushes from here saved.
    Raises: PushStopped, EditorFault, also where the kind of server knows no drafts.
    """
    read, link = await session.pull.merged(link)
    if read is None:
        raise PushStopped("push_gone")
    if link.state != "in_step":
        raise PushStopped(unfit_code(link.state), approval=link.approval or "")
    unpublished = await session.editor.unpublished(read)
    if unpublished is None:
        return None
    form = FORMATS[session.connection.kind]
    live: Json = unpublished.live or {**read.document, "nodes": [], "connections": {}}
    plan = await run_limited(PushPlan.between, read, read.document, form, live)
    own = sum(version in own_versions for version in unpublished.versions)
    effects = [PushRemark(code="push_goes_live")]
    others = len(unpublished.versions) - own
    facts = {"own": str(own), "others": str(others)}
    effects.append(PushRemark(code="push_releases", facts=facts))
    return replace(plan, preflight=Preflight(effects=tuple(effects)))


class PublishRun:
    """Publishes one draft and reads what became of it. `store` keeps it with each new state."""

    def __init__(
        self,
        session: ServerSession,
        link: ConnectionLink,
        *,
        store: StorePush,
        clock: Callable[[], int],
    ) -> None:
        self._session = session
        self._link = link
        self._store = store
        self._clock = clock

    async def send(self, push: Push) -> Push:
        """Sends a decided publication and returns it as it ended.

        Raises: EditorFault before it is sent.
        """
        read, _ = await self._session.pull.merged(self._link)
        if read is None:
            return await self._ended(push, "failed", PushRemark(code="push_gone"))
        if read.workflow.tokens[DRAFT] != push.tokens_before[DRAFT]:
            return await self._ended(push, "failed", PushRemark(code="push_stale"))
        push = await self._store(push, state="sent", sent_time=self._clock())
        try:
            answer = await self._session.editor.publish(read)
        except EditorFault:
            return await self.settle(push)
        reason = PushRemark(code="push_refused", facts={"reason": answer.reason})
        return await self._settled(push, None if answer.is_accepted else reason)

    async def settle(self, push: Push) -> Push:
        """Returns a publication whose sender stopped, as the server shows that it ended."""
        return await self._settled(push, PushRemark(code="push_not_applied"))

    async def _settled(self, push: Push, otherwise: PushRemark | None) -> Push:
        """Returns how a publication ended. `otherwise`: why, where the draft does not run."""
        for wait_s in READ_AGAIN_S:
            await asyncio.sleep(wait_s)
            try:
                read = await self._session.editor.read(self._link.workflow_id)
            except EditorFault:
                continue
            if read is None:
                return await self._ended(push, "failed", PushRemark(code="push_gone"))
            if read.workflow.tokens[LIVE] == push.tokens_before[DRAFT]:
                await self._session.pull.merged(self._link)
                tokens = dict(read.workflow.tokens)
                return await self._ended(push, "verified", None, tokens_after=tokens)
            if otherwise is not None:
                return await self._ended(push, "failed", otherwise)
        return await self._ended(push, "unknown", PushRemark(code="push_unread"))

    async def _ended(
        self, push: Push, state: PushState, remark: PushRemark | None, **update: Any
    ) -> Push:
        return await ended(self._store, push, state, remark, now=self._clock(), **update)
