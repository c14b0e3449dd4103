"""Live editing on one WebSocket connection: an editor's requests to a live graph, and the edits of
others.

A connection is on one sheet of one graph at a time. Messages are sent in the order of the edits,
the connection's own answers among the messages of others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import ValidationError

from datasources.instructions import GraphInstruction
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.live import edits
from graphrag.live.errors import EditRefused, LiveGraphClosed
from graphrag.live.instruction_batch import apply_instructions
from graphrag.live.live_graph import AppliedEdit, LiveGraph
from graphrag.live.members import Broadcast, Member
from graphrag.workers import end_tasks
from server import ws_messages
from server.auth import Identity
from server.channels.websocket_messages import Message, answer
from server.error_responses import error_response
from server.errors import NodeTypesNotLive, TooManyRequests
from server.server_state import ServerState
from server.workspaces import WorkspaceResolver
from server.ws_faults import is_unforeseen
from server.ws_outbox import ClientGone, Outbox

log = logging.getLogger(__name__)

# Time for which a person who sends too fast is only read more slowly; then they are refused.
EDIT_PATIENCE_S = 10.0

# Minimum interval of pointer messages; others are dropped.
PRESENCE_GAP_S = 0.04


@dataclass(slots=True)
class _Registered:
    """The sheet of the client. `pending`: messages that are not in the outbox yet."""

    live: LiveGraph
    member: Member
    pending: deque[Broadcast]
    forwarding: asyncio.Task[None] | None = None


class LiveEditing:
    """One client's part in a live graph. `lost` is set when the client has to register again: it
    fell behind, or the graph was closed.
    """

    def __init__(self, state: ServerState, outbox: Outbox, *, language: Language) -> None:
        self._state = state
        self._outbox = outbox
        self._language: Language = language
        self._here: _Registered | None = None
        self._in_order = asyncio.Lock()
        self._shown = 0.0
        self.lost = asyncio.Event()
        self.lost_reason: str | None = None

    async def take(
        self, message: ws_messages.SyncMessage, sent: Message, identity: Identity, size: int
    ) -> None:
        """Carries out a request of `size` bytes and answers it; a refusal is in the answer.

        Raises: ClientGone.
        """
        if isinstance(message, ws_messages.Presence):
            self._show(message)
            return
        # What comes meanwhile waits: only with the answer is it known which of it was
        # before the request.
        async with self._in_order:
            try:
                await self._wait_for_rate(identity.user_id, size)
                facts, timestamp = await self._carry_out(message, identity, size)
                reply = answer({**sent, **facts}, message.id)
            except ClientGone:
                raise
            except Exception as exc:  # every failure becomes an answer
                kind = {"type": message.type, "error": type(exc).__name__}
                log.info(
                    "ws_edit_refused", extra=kind, exc_info=exc if is_unforeseen(exc) else None
                )
                why = error_response(exc, self._language)
                reply = answer(sent, message.id, problem=why.message, code=why.code)
                timestamp = None
            self._state.monitoring.metrics.count(
                "live_edits", message.type, reply["_response"]["status"]
            )
            if self._here is not None:
                await self._drain(self._here, timestamp)
            await self._outbox.put(reply)
            if self._here is not None:
                await self._drain(self._here, None)

    def _show(self, message: ws_messages.Presence) -> None:
        """Shows the others on the sheet where this client is."""
        here = self._here
        now = time.monotonic()
        if here is None or now - self._shown < PRESENCE_GAP_S:
            return
        self._shown = now
        facts: dict[str, Any] = {"x": message.x, "y": message.y, "selection": message.selection}
        if message.dx is not None and message.dy is not None:
            facts |= {"dx": message.dx, "dy": message.dy}
        here.live.show(here.member, facts)

    async def keep_to(self, identity: Identity) -> None:
        """Leaves a graph of a workspace that a person has no access to (any more)."""
        if self._here is not None and self._here.live.workspace not in identity.workspaces:
            await self.aclose()

    async def aclose(self) -> None:
        """Leaves the graph: the client is gone, or has no access any more."""
        here = self._here
        self._here = None
        if here is not None:
            here.live.leave(here.member)
            await end_tasks(here.forwarding)

    async def _wait_for_rate(self, user_id: str, size: int) -> None:
        """Waits until a person may send again. Raises: TooManyRequests after EDIT_PATIENCE_S."""
        until = time.monotonic() + EDIT_PATIENCE_S
        while True:
            try:
                self._state.limits.edit_bytes.spend(user_id, size)
            except TooManyRequests as exc:
                if time.monotonic() + exc.retry_after_s > until:
                    raise
                await asyncio.sleep(exc.retry_after_s)
            else:
                return

    async def _carry_out(
        self, message: ws_messages.SyncMessage, identity: Identity, size: int
    ) -> tuple[Message, int | None]:
        """Returns the fields that the answer adds to the request, and the time of the edit in the
        order of edits.
        """
        if isinstance(message, ws_messages.RegisterUser):
            return await self._register(message, identity), None
        if isinstance(message, ws_messages.EditNodeType):
            raise NodeTypesNotLive
        here = self._here
        if here is None:
            raise EditRefused(where=message.type, reason=text_of("register_first", self._language))
        if isinstance(message, ws_messages.DisconnectUser):
            if message.graph_key != here.live.graph_key:
                raise EditRefused(where="graphKey", reason="you are not registered on this graph")
            await self.aclose()
            return {}, None
        identity.require("editor")
        match message:
            case ws_messages.GenerateIds():
                return {"ids": [edits.new_key() for _ in message.ids]}, None
            case ws_messages.ForceSave():
                status = await here.live.save()
            case ws_messages.ToggleAutoSave():
                status = here.live.set_auto_save(message.enabled)
            case ws_messages.UndoEdit():
                done = await here.live.undo(identity.user_id, redo=message.type == "redoEdit")
                if done is None:
                    return {"edit": None}, None
                undone, applied = done
                facts = {
                    "id": str(applied.timestamp),
                    "takesBack": undone.id,
                    "steps": undone.steps(),
                }
                return {"edit": facts}, None
            case _:
                applied = await _edit(here, message, identity.user_id)
                # A small edit of a large node writes the node.
                self._state.limits.edit_bytes.owe(identity.user_id, max(0, applied.size - size))
                shown = {k: v for k, v in applied.message.items() if k != "type"}
                return {**shown, "timestamp": applied.timestamp}, applied.timestamp
        return status.to_document(), None

    async def _register(self, message: ws_messages.RegisterUser, identity: Identity) -> Message:
        place = await WorkspaceResolver(self._state.backend.workspaces, identity).of_graph(
            message.graph_key
        )
        live = await self._state.backend.live.open(place.person.workspace, message.graph_key)
        member = live.join(identity.user_id, message.sheet_id, int(message.from_timestamp))
        earlier = self._here
        here = self._here = _Registered(live, member, deque())
        if earlier is not None:
            await self._drain(earlier, None)
            earlier.live.leave(earlier.member)
            await end_tasks(earlier.forwarding)
        here.forwarding = asyncio.create_task(self._forward(here))
        return {
            **live.status().to_document(),
            "missingMessages": [orjson.Fragment(missed.text) for missed in member.missed],
            "missingComplete": member.is_complete,
            "timestamp": member.timestamp,
        }

    async def _forward(self, here: _Registered) -> None:
        """Forwards the messages of others until there are no more."""
        try:
            while True:
                # Between the queue and `pending` nothing else runs: no message is ever
                # out of sight.
                here.pending.append(await here.member.next())
                async with self._in_order:
                    await self._drain(here, None)
        except LiveGraphClosed as exc:
            self.lost_reason = exc.reason
            self.lost.set()
        except ClientGone:
            return

    async def _drain(self, here: _Registered, before: int | None) -> None:
        """Forwards the messages that have arrived, only those before a time if it is given."""
        here.pending.extend(here.member.waiting())
        while here.pending and (before is None or here.pending[0].timestamp < before):
            await self._outbox.put_text(here.pending.popleft().text)


# The method of a live graph for each edit. Its parameters are named like the fields of the message.
_EDITS: Final[dict[type[ws_messages.SyncMessage], Callable[..., edits.Edit]]] = {
    ws_messages.CreateElements: edits.create_elements,
    ws_messages.DeleteElements: edits.delete_elements,
    ws_messages.CreateSheet: edits.create_sheet,
    ws_messages.RenameSheet: edits.rename_sheet,
    ws_messages.DeleteSheet: edits.delete_sheet,
}


async def _edit(here: _Registered, message: ws_messages.SyncMessage, user_id: str) -> AppliedEdit:
    """Carries an edit out in the live graph. Raises: EditRefused, EditNotKept, LiveGraphClosed."""
    if isinstance(message, ws_messages.ApplyInstructions):
        instructions = _instructions(message.instructions)
        return await here.live.edit(user_id, here.member, apply_instructions, instructions)
    if (work := _EDITS.get(type(message))) is None:
        raise EditRefused(where=message.type, reason="this is no edit")
    given = {
        name: getattr(message, name)
        for name in type(message).model_fields
        if name not in ("id", "type")
    }
    return await here.live.edit(user_id, here.member, work, **given)


def _instructions(sent: Sequence[dict[str, Any]]) -> list[GraphInstruction]:
    """Returns the instructions. Raises: EditRefused, with the place of the first malformed one."""
    found: list[GraphInstruction] = []
    for number, raw in enumerate(sent):
        try:
            found.append(GraphInstruction.model_validate(raw))
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(["instructions", str(number), *(str(part) for part in first["loc"])])
            raise EditRefused(where=where[:200], reason=first["msg"]) from exc
    return found
