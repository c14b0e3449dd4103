"""The WebSocket at `/ws`: one connection from its sign-in to its end.

A client signs in with its first message, or sends a token with each `ai:*` message. Messages are
handled one after the other, in order; turns run beside them. An invalid message is answered with an
error, and the connection stays open.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from graphrag.agent.thread_store import ThreadNotFound
from graphrag.automations.automation import RUN
from graphrag.i18n import Language
from graphrag.i18n import text as text_of
from graphrag.logs import bind_log_context
from graphrag.workers import end_tasks
from server import ws_messages
from server.auth import Identity, check_own_page, mark_signed
from server.channels.websocket_messages import Message, error_message
from server.error_responses import error_response
from server.errors import AuthError, ForeignPage, ServerError, TooManyRequests
from server.http_connections import connection_of
from server.request_language import language_of
from server.server_state import ServerState
from server.workspaces import WorkspaceResolver
from server.ws_ai import AiLimits, Conversations
from server.ws_faults import fault_message, is_unforeseen
from server.ws_outbox import ClientGone, Outbox, OutboxLimits
from server.ws_sign_in import SignIn, auth_result, refusal
from server.ws_subscriptions import (
    Subscription,
    call_messages,
    listed_messages,
    review_messages,
    session_messages,
    turn_messages,
)
from server.ws_sync import LiveEditing

log = logging.getLogger(__name__)

router = APIRouter()

NOT_AUTHENTICATED = 4001
AUTHENTICATION_TIMEOUT = 4002
WORKSPACE_DENIED = 4003
TRY_AGAIN_LATER = 1013

LARGE_CHARS = 100_000  # a longer frame is parsed in a thread


@dataclass(frozen=True, slots=True, kw_only=True)
class WsOptions:
    """Bounds of a connection. Units: seconds."""

    sign_in_s: float = 15.0
    outbox: OutboxLimits = field(default_factory=OutboxLimits)
    ai: AiLimits = field(default_factory=AiLimits)


@router.websocket("/ws")
async def serve(socket: WebSocket) -> None:
    """Serves one client. Without configured sign-in it must be a page or program of this
    computer.
    """
    state: ServerState = socket.app.state.server
    if not state.authentication.authenticator.is_configured:
        try:
            check_own_page(socket)
        except ForeignPage:
            await socket.close(1008)  # before it is accepted: the client sees HTTP 403
            return
    await socket.accept()
    options: WsOptions = getattr(socket.app.state, "ws_options", WsOptions())
    await Connection(socket, state, options).run()


class Connection:
    """The connection of one client. It ends when the client disconnects, does not read, or has to
    be refused.
    """

    def __init__(self, socket: WebSocket, state: ServerState, options: WsOptions) -> None:
        self._socket = socket
        self._state = state
        self._options = options
        self._language: Language = language_of(socket)
        self._sign_in = SignIn()
        bind_log_context(sessionId=secrets.token_hex(8))
        self._outbox = Outbox(socket.send_text, options.outbox)
        connection = connection_of(socket)
        self._conversations = Conversations(
            state, self._outbox, self._language, options.ai, connection
        )
        self._subscriptions = {
            kind: Subscription(self._outbox, self._language)
            for kind in ws_messages.SubscribeMessage.__subclasses__()
        }
        self._editing = LiveEditing(state, self._outbox, language=self._language)
        self._deadline = asyncio.timeout(options.sign_in_s)

    async def run(self) -> None:
        """Serves the client until the connection ends."""
        sending = asyncio.create_task(self._send())
        receiving = asyncio.create_task(self._receive())
        lost = asyncio.create_task(self._editing.lost.wait())
        expiring = asyncio.create_task(self._expire())
        try:
            await asyncio.wait({sending, receiving, lost}, return_when=asyncio.FIRST_COMPLETED)
            code = TRY_AGAIN_LATER if lost.done() else None
            if receiving.done():
                code = receiving.result()
            if code is not None:
                await self._outbox.close()
                await sending
                await self._socket.close(code, self._editing.lost_reason)
        except (ClientGone, WebSocketDisconnect):
            log.debug("ws_client_gone")
        finally:
            await asyncio.shield(self._ended(sending, receiving, lost, expiring))

    async def _ended(self, *tasks: asyncio.Task[Any]) -> None:
        """Ends the work of the connection: turns are stopped and stored."""
        await self._outbox.close(ClientGone())
        await end_tasks(*tasks)
        await self._editing.aclose()
        for subscription in self._subscriptions.values():
            await subscription.aclose()
        await self._conversations.aclose()

    async def _send(self) -> None:
        """Sends queued messages until the connection ends."""
        try:
            await self._outbox.run()
        except ClientGone as gone:
            log.info("ws_client_slow", extra={"waited_s": gone.waited_s})
        except (WebSocketDisconnect, RuntimeError):  # the framework's words for a closed connection
            await self._outbox.close(ClientGone())

    async def _receive(self) -> int | None:
        """Handles messages until the client disconnects. Returns the code to close with, if it has
        to be closed.
        """
        try:
            async with self._deadline:
                if not self._state.authentication.authenticator.is_configured:
                    try:
                        await self._signed_in(
                            await self._state.authentication.authenticator.authenticate(
                                None, "websocket"
                            )
                        )
                    except TooManyRequests as exc:
                        return await self._refused(exc)
                while True:
                    frame = await self._socket.receive()
                    if frame["type"] == "websocket.disconnect":
                        return None
                    code = await self._take(frame)
                    if code is not None:
                        return code
        except ClientGone:
            return None
        except TimeoutError:
            if not self._deadline.expired():
                raise
            await self._outbox.put(auth_result(error=self._say("sign_in_late")))
            return AUTHENTICATION_TIMEOUT

    async def _take(self, frame: Any) -> int | None:
        """Answers one frame. Returns a code if the connection is to be closed."""
        text: str | bytes = frame.get("text") or frame.get("bytes") or b""
        try:
            if len(text) > LARGE_CHARS:
                message, sent = await asyncio.to_thread(ws_messages.parse_message, text)
            else:
                message, sent = ws_messages.parse_message(text)
        except ws_messages.InvalidMessage as exc:
            known = self._sign_in.identity is not None or (exc.type or "").startswith(
                ws_messages.AI_PREFIXES
            )
            await self._outbox.put(refusal(exc) if known else auth_result(exc.id, error=exc.reason))
            return None
        if isinstance(message, ws_messages.Authenticate):
            return await self._authenticate(message)
        if isinstance(message, ws_messages.AiMessage):
            await self._ai(message)
        elif (identity := self._sign_in.identity) is None:
            await self._outbox.put(auth_result(message.id, error=self._say("sign_in_first")))
        else:
            await self._signed(message, sent, identity, len(text))
        return None

    async def _signed(
        self,
        message: ws_messages.Ping | ws_messages.SyncMessage,
        sent: Message,
        identity: Identity,
        size: int,
    ) -> None:
        """Answers a message of a signed-in client."""
        if isinstance(message, ws_messages.Ping):
            pong = {"type": "__pong__"}
            await self._outbox.put(pong if message.id is None else {**pong, "_id": message.id})
        else:
            await self._editing.take(message, sent, identity, size)
            if self._sign_in.identity is None:  # the token expired meanwhile
                await self._editing.aclose()

    async def _expire(self) -> None:
        """When the token expires, ends everything that it gave access to. The client may sign in
        again for a while.
        """
        with suppress(ClientGone):
            while True:
                await self._sign_in.expired()
                self._deadline.reschedule(
                    asyncio.get_running_loop().time() + self._options.sign_in_s
                )
                await self._editing.aclose()
                await self._outbox.put(auth_result(error=self._say("token_expired")))

    async def _ai(self, message: ws_messages.AiMessage) -> None:
        """Handles a message of a conversation. A refusal is its `ai:error`."""
        try:
            sign_in = self._sign_in
            if message.token is not None:
                authenticator = self._state.authentication.authenticator
                signed = await authenticator.authenticate(message.token, "websocket")
                mark_signed(self._socket, signed.user_id)
                sign_in = SignIn(signed)
                self._deadline.reschedule(None)
            if (identity := sign_in.identity) is None:
                await self._outbox.put(auth_result(message.id, error=self._say("sign_in_first")))
                return
            await self._ai_of(message, identity, sign_in)
        except ClientGone:
            raise
        except Exception as exc:  # every failure becomes an answer
            facts = {"type": message.type, "error": type(exc).__name__}
            log.info("ws_refused", extra=facts, exc_info=exc if is_unforeseen(exc) else None)
            await self._outbox.put(fault_message(message.id, exc, self._language))

    async def _ai_of(
        self, message: ws_messages.AiMessage, identity: Identity, sign_in: SignIn
    ) -> None:
        if isinstance(message, ws_messages.AiInterrupt):
            thread_id = message.thread_id
            if thread_id:
                was_stopped = self._state.activity.turns.interrupt(identity, thread_id)
                was_stopped = was_stopped or await self._stopped_elsewhere(identity, thread_id)
            else:
                was_stopped = self._conversations.interrupt_asked(message.id)
            if not was_stopped:
                text = self._say("no_turn_to_stop")
                await self._outbox.put(error_message(message.id, "not_found", text))
            return
        places = WorkspaceResolver(self._state.backend.workspaces, identity)
        if isinstance(message, ws_messages.SubscribeMessage):
            await self._subscribe(message, places, sign_in)
            return
        self._state.limits.messages.spend(identity.user_id)
        if isinstance(message, ws_messages.AiChat):
            place = await places.of_chat(message.graph_key, message.thread_id, message.agent_id)
            await self._conversations.take(place, message, sign_in)
        elif isinstance(message, ws_messages.AiEnd | ws_messages.AiAnswer | ws_messages.AiResume):
            place = await places.with_thread(message.thread_id)
            if isinstance(message, ws_messages.AiEnd):
                self._state.activity.turns.interrupt(identity, message.thread_id)
                self._conversations.end(place, message)
            else:
                await self._conversations.take(place, message, sign_in)

    async def _subscribe(
        self, message: ws_messages.SubscribeMessage, places: WorkspaceResolver, sign_in: SignIn
    ) -> None:
        """Starts a subscription in place of the client's earlier one of the same kind."""
        subscription = self._subscriptions.setdefault(
            type(message), Subscription(self._outbox, self._language)
        )
        await subscription.aclose()
        first: Message
        match message:
            case ws_messages.AiWatch():
                first = {"type": "ai:watching"}
                watched = await places.all()
                sources = [
                    review_messages(place, message, sign_in, self._language) for place in watched
                ]
            case ws_messages.AiSessions():
                first = {"type": "ai:sessions"}
                sources = [
                    session_messages(place, message, sign_in) for place in await places.all()
                ]
            case ws_messages.CallsWatch():
                places.identity.require("reviewer")
                first = {"type": "calls:watching"}
                sources = [listed_messages(place, message, sign_in) for place in await places.all()]
            case ws_messages.CallFollow() if message.call_id:
                place, _ = await places.of_call(message.call_id)
                first = {"type": "call:following", "callId": message.call_id}
                sources = [call_messages(place, message, sign_in)]
            case ws_messages.AiFollow() if message.thread_id:
                first = {"type": "ai:following", "threadId": message.thread_id}
                sources = [await self._turns_of(message, places, sign_in)]
            case _:
                return
        await subscription.start({**first, "_id": message.id}, sources)

    async def _turns_of(
        self, message: ws_messages.AiFollow, places: WorkspaceResolver, sign_in: SignIn
    ) -> AsyncGenerator[Message]:
        is_run = message.thread_id.startswith(RUN)
        place, _ = await (places.of_session if is_run else places.of_thread)(message.thread_id)
        owner = self._conversations
        look_s = self._options.ai.look_s
        return turn_messages(
            place, message, sign_in, self._state.activity.turns, owner=owner, look_s=look_s
        )

    async def _stopped_elsewhere(self, identity: Identity, thread_id: str) -> bool:
        """Asks another server to stop a person's turn. Returns True if one runs it."""
        try:
            place, _ = await WorkspaceResolver(self._state.backend.workspaces, identity).of_thread(
                thread_id
            )
        except ThreadNotFound:
            return False
        return await place.agent.stop(thread_id, place.person)

    def _say(self, code: str) -> str:
        return text_of(code, self._language)

    async def _signed_in(self, identity: Identity) -> None:
        """Signs a person in. Ends everything that a newer token gives no access to.

        Raises: TooManyRequests if this person has the maximum of connections and none is idle.
        """
        mark_signed(self._socket, identity.user_id)
        self._sign_in.set(identity)
        self._deadline.reschedule(None)
        await self._editing.keep_to(identity)

    async def _authenticate(self, message: ws_messages.Authenticate) -> int | None:
        try:
            identity = await self._state.authentication.authenticator.authenticate(
                message.token, "websocket"
            )
            earlier = self._sign_in.last
            if earlier is not None and earlier.user_id != identity.user_id:
                await self._outbox.put(
                    auth_result(message.id, error=self._say("signed_in_as_other"))
                )
                return None
            await self._signed_in(identity)
        except ServerError as exc:
            return await self._refused(exc, message.id)
        await self._outbox.put(auth_result(message.id, identity=identity))
        return None

    async def _refused(self, exc: ServerError, message_id: float | None = None) -> int:
        """Answers that a sign-in is refused. Returns the code to close with."""
        answer = error_response(exc, self._language)
        await self._outbox.put(auth_result(message_id, error=answer.message))
        if answer.retryable:
            return TRY_AGAIN_LATER
        denied = isinstance(exc, AuthError) and exc.claim == "workspaces"
        return WORKSPACE_DENIED if denied else NOT_AUTHENTICATED
