"""The turns and runs that this process works on, each with a log of the messages that were
sent of it.

Other connections read the log at their own pace: a slow one delays neither the turn nor another
reader, and nothing is stored twice for them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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

SHOWN_CHARS = 20_000
"""So much of a tool's result is kept for other connections."""


class TurnLog:
    """Stores what was sent of a turn: messages without their `_id`, and between them pieces
    of the answer.
    """

    def __init__(self) -> None:
        self._parts: list[Message | list[str]] = []
        self._ended = False
        self._readers: set[asyncio.Event] = set()

    def add(self, message: Message) -> None:
        """Keep a message as it was sent."""
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
        """Nothing more comes."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        for changed in self._readers:
            changed.set()

    async def read(self) -> AsyncGenerator[Message]:
        """Yield it from its beginning to its end; what is there already of the answer comes
        in one piece.
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
    """A turn under way here. `interrupted`: a person stopped it; `ended`: the client has its end.

    Its messages are sent as long as the `sign_in` lasts that asked for it. `question` is what a
    person asked, None where it goes on after a decision. `owner` is the connection that runs it,
    `features` what its client can show.
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
        """Records that the task has begun to work: from now on it can be cancelled."""
        self.started = True

    def end(self) -> None:
        """Records that the client has the turn's end."""
        self.ended = True

    def is_of(self, identity: Identity) -> bool:
        person = self.place.person
        return person.user_id == identity.user_id and person.workspace in identity.workspaces


@dataclass(slots=True, kw_only=True, eq=False)
class ActiveRun:
    """A run of an automation under way here; nobody's connection owns it, and nobody
    asked in words.
    """

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
    """The turns of this process, which a person may stop and follow from another connection,
    and its runs.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._turns: dict[ActiveTurn, None] = {}
        self._followed: dict[ActiveTurn | ActiveRun, int] = {}
        self._new = asyncio.Event()

    def __len__(self) -> int:
        return len(self._turns)

    def all(self) -> list[ActiveTurn]:
        return list(self._turns)

    def add(self, turn: ActiveTurn) -> None:
        self._turns[turn] = None

    def begun(self, turn: ActiveTurn | ActiveRun) -> None:
        """Note that a turn holds its conversation: it may be followed from now on."""
        self._followed[turn] = next(self._numbers)
        self._new.set()
        self._new = asyncio.Event()

    def remove(self, turn: ActiveTurn | ActiveRun) -> None:
        self._followed.pop(turn, None)
        if isinstance(turn, ActiveTurn):
            self._turns.pop(turn, None)
        turn.log.end()

    def is_here(self, thread_id: str) -> bool:
        """Whether a turn of a thread is under way here, begun or not, or a run of it."""
        return any(turn.thread_id == thread_id for turn in (*self._turns, *self._followed))

    async def next_of(
        self, identity: Identity, thread_id: str, seen: int, wait_s: float
    ) -> tuple[int, ActiveTurn | ActiveRun] | None:
        """Return the first turn of a thread whose number is above `seen`; None when none began
        in a while.
        """
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    new = self._new
                    for turn, number in self._followed.items():
                        if number > seen and turn.thread_id == thread_id and turn.is_of(identity):
                            return number, turn
                    await new.wait()
        except TimeoutError:
            return None

    async def until_stopped(self, turn: ActiveTurn) -> None:
        """Wait for the turns of the same conversation that a person has stopped: they
        are being stored.
        """
        same = [one for one in self._turns if one is not turn and one.thread_id == turn.thread_id]
        leaving = {one.task for one in same if one.interrupted and one.task is not None}
        if leaving and turn.thread_id:
            await asyncio.wait(leaving)

    def interrupt(self, identity: Identity, thread_id: str) -> bool:
        """Stop a person's turn in a thread; say whether there was one."""
        return stop(
            turn for turn in self._turns if turn.thread_id == thread_id and turn.is_of(identity)
        )

    @contextmanager
    def following(self, thread: Thread, language: Language) -> Generator[Callable[[Event], None]]:
        """Keep what comes of a run within the block for those who follow it."""
        run = ActiveRun(thread=thread)
        wire = WireTurn(0, language)

        def take(event: Event) -> None:
            if isinstance(event, TurnStarted):  # until then it may be another process's
                self.begun(run)
            for message in wire.messages(event):
                run.log.add(message)

        try:
            yield take
        finally:
            self.remove(run)


def stop(turns: Iterable[ActiveTurn]) -> bool:
    """Stop turns as a person does; say whether there was one that had not ended."""
    found = [turn for turn in turns if not turn.ended]
    for turn in found:
        if not turn.interrupted and turn.task is not None and turn.started:
            turn.task.cancel()  # one that has not started sees by itself that it is not wanted
        turn.interrupted = True
    return bool(found)
