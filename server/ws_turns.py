"""The turns that this process runs, each with a log of the messages that were sent of it.

Other connections read the log at their own pace: a slow one delays neither the turn nor another reader,
and nothing is stored twice for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from server.auth import Identity
from server.turn_log import Followed, TurnLog
from server.workspaces import WorkspaceContext
from server.ws_events import WireTurn
from server.ws_sign_in import SignIn
from tools.base import NO_FEATURES


@dataclass(slots=True)
class ActiveTurn:
    """A turn under way here. `interrupted`: a person stopped it; `ended`: the client has its end.

    Its messages are sent as long as the `sign_in` lasts that asked for it. `question` is what a person asked,
    None where it goes on after a decision. `owner` is the connection that runs it, `features` what its client
    can show.
    """

    wire: WireTurn
    place: WorkspaceContext
    sign_in: SignIn
    owner: object
    question: str | None = None
    features: frozenset[str] = NO_FEATURES
    log: TurnLog = field(default_factory=TurnLog)
    number: int = -1
    task: asyncio.Task[None] | None = None
    started: bool = False
    interrupted: bool = False
    ended: bool = False

    def is_of(self, identity: Identity, thread_id: str) -> bool:
        person = self.place.person
        is_theirs = person.user_id == identity.user_id and person.workspace in identity.workspaces
        return is_theirs and self.wire.thread_id == thread_id


class RunningTurns(Followed[ActiveTurn]):
    """The turns that this process runs: from another connection a person may stop or follow theirs."""

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[int, ActiveTurn] = {}

    def __len__(self) -> int:
        return len(self._turns)

    def all(self) -> list[ActiveTurn]:
        return list(self._turns.values())

    def add(self, turn: ActiveTurn) -> int:
        turn.number = next(self.numbers)
        self._turns[turn.number] = turn
        return turn.number

    def remove(self, number: int) -> None:
        self._turns.pop(number, None)
        turn = self.followed.pop(number, None)
        if turn is not None:
            turn.log.end()

    def is_here(self, thread_id: str) -> bool:
        """Whether a turn of a thread is under way here, begun or not."""
        return any(turn.wire.thread_id == thread_id for turn in self._turns.values())

    async def until_stopped(self, turn: ActiveTurn) -> None:
        """Wait for the turns of the same conversation that a person has stopped: they are being stored."""
        leaving = {
            other.task
            for other in self._turns.values()
            if other is not turn
            and other.task is not None
            and other.interrupted
            and other.wire.thread_id == turn.wire.thread_id
        }
        if leaving and turn.wire.thread_id:
            await asyncio.wait(leaving)

    def interrupt(self, identity: Identity, thread_id: str) -> bool:
        """Stop a person's turn in a thread; say whether there was one."""
        return stop(turn for turn in self._turns.values() if turn.is_of(identity, thread_id))


def stop(turns: Iterable[ActiveTurn]) -> bool:
    """Stop turns as a person does; say whether there was one that had not ended."""
    found = [turn for turn in turns if not turn.ended]
    for turn in found:
        if not turn.interrupted and turn.task is not None and turn.started:
            turn.task.cancel()  # one that has not started sees by itself that it is not wanted
        turn.interrupted = True
    return bool(found)
