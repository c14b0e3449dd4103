"""Functions that are called while automations run. Those that are not awaited may not raise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from graphrag.agent.events import Event
from graphrag.agent.thread_store import Thread
from graphrag.automations.automation import Automation, PauseReason
from graphrag.i18n import Language

Following = Callable[[Thread, Language], AbstractContextManager[Callable[[Event], None]]]


async def stored_nothing(*_: object) -> bool:
    """Reports that nothing had to be stored."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListeners:
    """Listeners of the runs of one workspace.

    `following`: opened for the time that a run is worked on; its function is given the run's
    events. `left`: stores what others are sent of a run that ended or waits, perhaps again after a
    kill; False: it could not, and is called again later. `announced`: called once for each end and
    wait of a run, also if another server stored it. `expiring`: the number of a run's proposals
    that have a day left; without it they are not marked as notified. `paused`: the service paused
    an automation. `late`: stores what others are sent of an occurrence that did not begin in time,
    perhaps again after a kill; `late_noted`: called once for it. `occurred`: the result of an
    occurrence: `run`, or why it began no run.
    """

    following: Following = lambda _thread, _language: nullcontext(lambda _: None)
    left: Callable[[Thread], Awaitable[bool]] = stored_nothing
    announced: Callable[[Thread], None] = lambda _: None
    expiring: Callable[[Thread, int], None] | None = None
    paused: Callable[[Automation, PauseReason], None] = lambda _automation, _reason: None
    late: Callable[[Automation, int], Awaitable[bool]] = stored_nothing
    late_noted: Callable[[Automation], None] = lambda _automation: None
    occurred: Callable[[Automation, str], None] = lambda _automation, _result: None
