"""Subscriptions of a WebSocket client: turns of a thread (`ai:follow`), reviews of workspaces
(`ai:watch`), states of automation runs (`ai:sessions`), a call (`call:follow`) and the list of
calls (`calls:watch`).

The messages of a subscription carry the `_id` of its request: first `ai:following` or
`ai:watching`. Then, for each turn that another connection runs in a thread, `ai:follow_turn` and
the messages of the turn from its start; for a turn of another server or an HTTP request only that
it runs. For reviews, `ai:review` for each workspace: the current state, then each change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress

from datasources.errors import SourceError
from graphrag.approvals import Approval, ApprovalNotFound
from graphrag.approvals.audit import Entry
from graphrag.approvals.discussion import COMMENTED
from graphrag.i18n import Language
from graphrag.workers import end_tasks
from server.approval_documents import approval_document
from server.channels.websocket_messages import Message
from server.errors import AuthError
from server.review_feed import ReviewChange
from server.turns import ActiveRun, ActiveTurn, RunningTurns
from server.workspaces import WorkspaceContext
from server.ws_faults import fault_message, is_unforeseen
from server.ws_messages import AiFollow, AiSessions, AiWatch, CallFollow, CallsWatch
from server.ws_outbox import ClientGone, Outbox, encode
from server.ws_sign_in import SignIn

log = logging.getLogger(__name__)

# Changed approvals that are sent; a client lists further ones.
MAX_PUSHED, MAX_PUSHED_BYTES = 50, 500_000
# Audit entries that are searched for decisions made while a client was away.
LOOKED_BACK = 200
_REVIEW_FACTS = ("approvalId", "graphKey", "threadId", "event", "asker", "userId")
_ENDINGS = ("ai:complete", "ai:error")

Messages = AsyncGenerator[Message]


class Subscription:
    """One client's subscription of one kind."""

    def __init__(self, outbox: Outbox, language: Language) -> None:
        self._outbox = outbox
        self._language: Language = language
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, first: Message, sources: Iterable[Messages]) -> None:
        """Sends `first`, then the messages of the sources. Returns at once. Raises: ClientGone."""
        await self._outbox.put(first)
        self._tasks = [asyncio.create_task(self._send(first, source)) for source in sources]

    async def aclose(self) -> None:
        tasks = self._tasks
        self._tasks = []
        await end_tasks(*tasks)

    async def _send(self, first: Message, source: Messages) -> None:
        with suppress(ClientGone):
            try:
                async with aclosing(source):
                    async for message in source:
                        await self._outbox.put(message)
            except (
                ClientGone,
                AuthError,
            ):  # of an expired token the connection itself informs the client
                return
            except Exception as exc:  # every failure becomes an answer
                log.info("ws_refused", extra={"type": first["type"], "error": type(exc).__name__},
                         exc_info=exc if is_unforeseen(exc) else None)  # fmt: skip
                await self._outbox.put(fault_message(first["_id"], exc, self._language))


async def review_messages(
    place: WorkspaceContext, asked: AiWatch, sign_in: SignIn, language: Language
) -> Messages:
    """Yields the reviews of a workspace: the number of waiting proposals, and decisions.

    Raises: AuthError.
    """
    workspace = place.person.workspace
    approvals = place.services.approvals

    def may_decide(asker: str) -> bool:
        return approvals.objection(asker, place.person) is None

    missed: Sequence[Entry] = await _missed(place, asked)
    with place.workspace.reviews.reading() as next_change:
        while True:
            change = await next_change()
            sign_in.check(workspace)
            decided = [
                {
                    **{name: entry.facts[name] for name in _REVIEW_FACTS if name in entry.facts},
                    "at": entry.at,
                }
                for entry in (*missed, *change.decided)
            ]
            missed = ()
            message: Message = {
                "type": "ai:review",
                "_id": asked.id,
                "workspace": workspace,
                "waiting": change.waiting_by_graph(),
                "decidable": change.waiting_by_graph(may_decide),
                "decided": decided,
            }
            if asked.approvals:
                message |= await _pushed(place, change, language)
            yield message


async def _pushed(place: WorkspaceContext, change: ReviewChange, language: Language) -> Message:
    """Returns the approvals that changed, as they are now. `complete`: these are all."""
    approvals: list[Approval] = []
    is_complete = change.is_complete and len(change.changed) <= MAX_PUSHED
    for approval_id in change.changed[:MAX_PUSHED]:
        try:
            approvals.append(await place.services.approvals.get(approval_id, place.person))
        except ApprovalNotFound:
            continue
        except SourceError:
            is_complete = False

    def documents() -> tuple[list[Message], bool]:
        shown = list[Message]()
        left = MAX_PUSHED_BYTES
        for approval in approvals:
            answer = approval_document(place, approval, language)
            document = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            left -= len(encode(document))
            if left < 0:
                return shown, False
            shown.append(document)
        return shown, is_complete

    shown, is_all = await asyncio.to_thread(documents)
    conflicts = [one.to_document() for one in change.conflicts]
    return {"approvals": shown, "conflicts": conflicts, "complete": is_all}


async def _missed(place: WorkspaceContext, asked: AiWatch) -> Sequence[Entry]:
    """Returns the decisions about this person's proposals since the time that they name."""
    if asked.since is None:
        return ()
    try:
        entries = await place.services.approvals.audit.entries(limit=LOOKED_BACK)
    except SourceError as exc:
        log.warning("review_unreadable", extra={"error": type(exc).__name__})
        return ()
    return [
        entry
        for entry in reversed(entries)
        if entry.at > asked.since
        and entry.facts.get("asker") == place.person.user_id
        and entry.facts.get("event") != COMMENTED
    ]


async def turn_messages(
    place: WorkspaceContext,
    asked: AiFollow,
    sign_in: SignIn,
    turns: RunningTurns,
    *,
    owner: object,
    look_s: float,
) -> Messages:
    """Yields the turns of a thread, or the work on a run, except those of `owner`, until the token
    expires.

    Checks at notices, and every `look_s` seconds, whether another server runs one.
    Raises: AuthError.
    """
    numbered = {"_id": asked.id, "threadId": asked.thread_id}
    thread_id = asked.thread_id
    seen = -1
    is_announced = False
    with place.agent.leases.watched(thread_id) as inbox, turns.awaited(thread_id, inbox):
        while (identity := sign_in.identity) is not None:
            following = turns.next_of(identity, thread_id, seen)
            if following is None:
                runs = await _runs_elsewhere(place, thread_id, turns, earlier=is_announced)
                if runs and not is_announced:
                    yield {"type": "ai:follow_turn", **numbered, "here": False}
                is_announced = runs
                await inbox.wait(look_s)
                continue
            (seen, turn), is_announced = following, False
            if turn.owner is owner:
                continue
            question = {} if turn.question is None else {"message": turn.question}
            yield {"type": "ai:follow_turn", **numbered, "here": True, **question}
            async for message in _followed(turn, place, sign_in, numbered):
                yield message


async def _followed(
    turn: ActiveTurn | ActiveRun,
    place: WorkspaceContext,
    sign_in: SignIn,
    numbered: Message,
) -> Messages:
    """Yields the messages of a turn of this server to its end. Raises: AuthError."""
    last = ""
    async for message in turn.log.read():
        sign_in.check(place.person.workspace)
        yield {**message, "_id": numbered["_id"]}
        last = message["type"]
    if last not in _ENDINGS:  # its client went away: how it ended is stored
        yield {"type": "ai:follow_end", **numbered}


async def _runs_elsewhere(
    place: WorkspaceContext, thread_id: str, turns: RunningTurns, *, earlier: bool
) -> bool:
    """Returns True if a turn runs that this process does not see; `earlier` if that is unknown."""
    if turns.is_here(thread_id):
        return earlier
    try:
        return await place.agent.leases.runs(thread_id)
    except SourceError as exc:  # the store may be back at the next look
        log.warning("follow_unreadable", extra={"error": type(exc).__name__})
        return earlier


async def session_messages(place: WorkspaceContext, asked: AiSessions, sign_in: SignIn) -> Messages:
    """Yields the states of the sessions that a person may see, now and at each change: runs, and
    their own conversations.

    Raises: AuthError.
    """
    async with aclosing(place.workspace.sessions.changes()) as changes:
        async for states in changes:
            sign_in.check(place.person.workspace)
            for state in states:
                sees_all = place.person.at_least("reviewer") and not state.is_private
                sees = sees_all or state.owner == place.person.user_id
                if sees and asked.graph_key in (None, state.about):
                    yield {"type": "ai:session_state", "_id": asked.id, **state.document}


async def call_messages(place: WorkspaceContext, asked: CallFollow, sign_in: SignIn) -> Messages:
    """Yields the events of a call from its start to its end. Raises: AuthError, CallNotFound."""
    numbered = {"_id": asked.id, "callId": asked.call_id}
    async with aclosing(place.calls.follow(asked.call_id, place.person)) as messages:
        async for message in messages:
            sign_in.check(place.person.workspace)
            yield {**message, **numbered}


async def listed_messages(place: WorkspaceContext, asked: CallsWatch, sign_in: SignIn) -> Messages:
    """Yields the open calls, then each call when it changes. Raises: AuthError."""
    async with aclosing(place.workspace.listed_calls.changes()) as changes:
        async for states in changes:
            sign_in.check(place.person.workspace)
            for state in states:
                if asked.agent_id in (None, state.about):
                    yield {"type": "call:listed", "_id": asked.id, "call": dict(state.document)}
