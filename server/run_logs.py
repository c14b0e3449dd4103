"""The runs of automations that this process works on, so that who may see them follows them live."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from graphrag.agent.events import Event, TurnStarted
from graphrag.agent.thread_store import Thread
from graphrag.automations.session_control import SessionControl
from graphrag.i18n import Language
from server.auth import Identity
from server.turn_log import Followed, TurnLog
from server.ws_events import WireTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLog:
    """A run under way; nobody's connection owns it, and nobody asked for it in words."""

    number: int
    thread: Thread
    log: TurnLog = field(default_factory=TurnLog)
    owner: None = None
    question: None = None

    def is_of(self, identity: Identity, thread_id: str) -> bool:
        workspace = self.thread.workspace
        may_enter = self.thread.key == thread_id and workspace in identity.workspaces
        return may_enter and SessionControl.sees(self.thread.user_id, identity.person(workspace))


class RunLogs(Followed[RunLog]):
    """Followed as turns are: see `RunningTurns`."""

    @contextmanager
    def following(self, thread: Thread, language: Language) -> Generator[Callable[[Event], None]]:
        """Keep what comes of a run within the block for those who follow it."""
        run, wire = RunLog(number=next(self.numbers), thread=thread), WireTurn(0, language)

        def take(event: Event) -> None:
            if isinstance(event, TurnStarted):  # until then it may be another process's
                self.begun(run)
            for message in wire.messages(event):
                run.log.add(message)

        try:
            yield take
        finally:
            self.followed.pop(run.number, None)
            run.log.end()

    def is_here(self, thread_id: str) -> bool:
        return any(run.thread.key == thread_id for run in self.followed.values())
