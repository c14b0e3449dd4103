"""The turns and runs of this process, each with a log of the messages sent.

Other connections read the log at their own pace: a slow reader delays neither the turn nor other
readers, and nothing is stored twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from datasources.notices import NoticeInbox
from graphrag.agent.events import Event, TurnStarted
from graphrag.agent.thread_store import Thread
from graphrag.automations.session_control import SessionControl
from graphrag.i18n import Language
from server.auth import Identity
from server.channels.websocket_messages import Message, WireTurn
from tools.base import NO_FEATURES

if TYPE_CHECKING:
    from server.workspaces import WorkspaceContext
    from server.ws_sign_in import SignIn

# Characters of a tool's result that are kept for other connections.
SHOWN_CHARS = 20_000


class TurnLog:
    """Stores the sent messages of a turn, without their `_id`; pieces of the answer are joined."""

    def __init__(self) -> None:
        self._parts: list[Message | list[str]] = []
        self._ended = False
        self._readers: set[asyncio.Event] = set()

    def add(self, message: Message) -> None:
        """Stores a message as it was sent."""
        if message["type"] == "ai:token":
            if not self._parts or isinstance(self._parts[-1], dict):
                self._parts.append([])
            pieces = self._parts[-1]
            assert isinstance(pieces, list)
            pieces.append(message["token"])
        else:
            kept = {name: value for name, value in message.items() if name != "_id"}
            if isinstance(kept.get("result"), str):
                kept["result"] = kept["result"][:SHOWN_CHARS]
            self._parts.append(kept)
        self._wake()

    def end(self) -> None:
        """Ends the log: no more messages follow."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        for changed in self._readers:
            changed.set()

    async def read(self) -> AsyncGenerator[Message]:
        """Yields the log from its start to its end. The text of the answer so far comes in one
        piece.
        """
        changed = asyncio.Event()
        self._readers.add(changed)
        try:
            at = piece = 0
            while True:
                changed.clear()
                while at < len(self._parts):
                    part = self._parts[at]
                    if isinstance(part, dict):
                        at += 1
                        yield part
                        continue
                    text = "".join(part[piece:])
                    piece = len(part)
                    if text:
                        yield {"type": "ai:token", "token": text}
                    elif at + 1 < len(self._parts):
                        at = at + 1
                        piece = 0
                    else:
                        break
                if self._ended and not changed.is_set():
                    return
                await changed.wait()
        finally:
            self._readers.discard(changed)


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveTurn:
    """A turn that runs in this process. `interrupted`: a person stopped it; `ended`: its end was
    sent.

    Its messages are sent while the `sign_in` of its request is valid. `question`: the message of
    the person, None if it continues after a decision. `owner`: the connection that runs it;
    `features`: what its client can show.
    """

    wire: WireTurn
    place: WorkspaceContext
    sign_in: SignIn
    owner: object
    question: str | None = None
    features: frozenset[str] = NO_FEATURES
    log: TurnLog = field(default_factory=TurnLog)
    task: asyncio.Task[None] | None = None
    started: bool = False
    interrupted: bool = False
    ended: bool = False

    @property
    def thread_id(self) -> str | None:
        return self.wire.thread_id

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs the turn in a task, which it returns."""
        self.task = asyncio.create_task(work)
        return self.task

    def start(self) -> None:
        """Records that the task has started: it can be cancelled from now on."""
        self.started = True

    def end(self) -> None:
        """Records that the end of the turn was sent."""
        self.ended = True

    def is_of(self, identity: Identity) -> bool:
        person = self.place.person
        return person.user_id == identity.user_id and person.workspace in identity.workspaces


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveRun:
    """A run of an automation in this process. No connection owns it, and no person asked."""

    thread: Thread
    log: TurnLog = field(default_factory=TurnLog)
    owner: None = None
    question: None = None

    @property
    def thread_id(self) -> str:
        return self.thread.key

    def is_of(self, identity: Identity) -> bool:
        workspace = self.thread.workspace
        may_enter = workspace in identity.workspaces
        return may_enter and SessionControl.sees(self.thread.user_id, identity.person(workspace))


class RunningTurns:
    """The turns and runs of this process, which a person may stop and follow from another
    connection.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._turns: dict[ActiveTurn, None] = {}
        self._runs: dict[ActiveRun, None] = {}
        self._followed: dict[ActiveTurn | ActiveRun, int] = {}
        self._awaited: dict[str, set[NoticeInbox]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def all(self) -> list[ActiveTurn]:
        return list(self._turns)

    def add(self, turn: ActiveTurn) -> None:
        self._turns[turn] = None

    def begun(self, turn: ActiveTurn | ActiveRun) -> None:
        """Records that a turn holds its conversation: it may be followed from now on."""
        self._followed[turn] = next(self._numbers)
        for inbox in self._awaited.get(turn.thread_id or "", ()):
            inbox.wake()

    def remove(self, turn: ActiveTurn | ActiveRun) -> None:
        self._followed.pop(turn, None)
        if isinstance(turn, ActiveTurn):
            self._turns.pop(turn, None)
        turn.log.end()

    def is_here(self, thread_id: str) -> bool:
        """Returns True if a turn or a run of a thread, started or not, is in this process."""
        here = (*self._turns, *self._runs, *self._followed)
        return any(turn.thread_id == thread_id for turn in here)

    def next_of(
        self, identity: Identity, thread_id: str, seen: int
    ) -> tuple[int, ActiveTurn | ActiveRun] | None:
        """Returns the first turn of a thread with a number above `seen`, None if there is none."""
        for turn, number in self._followed.items():
            if number > seen and turn.thread_id == thread_id and turn.is_of(identity):
                return number, turn
        return None

    @contextmanager
    def awaited(self, thread_id: str, inbox: NoticeInbox) -> Generator[None]:
        """Wakes an inbox, during the block, when a turn of a thread may be followed here."""
        inboxes = self._awaited.setdefault(thread_id, set())
        inboxes.add(inbox)
        try:
            yield
        finally:
            inboxes.discard(inbox)
            if not inboxes:
                self._awaited.pop(thread_id, None)

    async def until_stopped(self, turn: ActiveTurn) -> None:
        """Waits until stopped turns of the same conversation are stored."""
        same = [one for one in self._turns if one is not turn and one.thread_id == turn.thread_id]
        leaving = {one.task for one in same if one.interrupted and one.task is not None}
        if leaving and turn.thread_id:
            await asyncio.wait(leaving)

    def interrupt(self, identity: Identity, thread_id: str) -> bool:
        """Stops a person's turn in a thread. Returns False if there was none."""
        return stop(
            turn for turn in self._turns if turn.thread_id == thread_id and turn.is_of(identity)
        )

    @contextmanager
    def following(self, thread: Thread, language: Language) -> Generator[Callable[[Event], None]]:
        """Logs the events of a run during the block, for those who follow it."""
        run = ActiveRun(thread=thread)
        wire = WireTurn(0, language)

        def take(event: Event) -> None:
            if isinstance(event, TurnStarted):  # until then it may be another process's
                self.begun(run)
            for message in wire.messages(event):
                run.log.add(message)

        self._runs[run] = None
        try:
            yield take
        finally:
            del self._runs[run]
            self.remove(run)


def stop(turns: Iterable[ActiveTurn]) -> bool:
    """Stops turns as a person does. Returns False if all had ended."""
    running = [turn for turn in turns if not turn.ended]
    for turn in running:
        if not turn.interrupted and turn.task is not None and turn.started:
            turn.task.cancel()  # one that has not started sees by itself that it is not wanted
        turn.interrupted = True
    return bool(running)
