"""Serves one call: reads the phone side, feeds the dialogue and carries out its actions.

The dialogue, and the work with the model, are those of the call's engine. Feeding the dialogue
never waits: frames are queued and tools run in tasks of their own. A call ends once. Its record
says why before the phone side is closed, because the telephone service then asks for the
follow-up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast, final, get_args

from datasources.errors import SourceError
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import ThreadBusy
from graphrag.agent.turn_lease import TurnLease, TurnUnwanted
from graphrag.agents.errors import AgentError
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.approvals.approval import KIND as APPROVAL
from graphrag.bridge import signals
from graphrag.bridge.phone_messages import MessageRefused, PhoneSide, StreamStart
from graphrag.bridge.signals import Action, Signal
from graphrag.config import SettingsError
from graphrag.llm.usage_meter import UsageLimitReached
from graphrag.prompts.library import PromptError
from graphrag.voice.call_engine import CallDialogue, CallEngine, EngineParts, OpenCall
from graphrag.voice.call_feed import CallFeed
from graphrag.voice.call_metrics import AgentMetrics
from graphrag.voice.call_recorder import CallRecorder
from graphrag.voice.call_setup import CallSetup
from graphrag.voice.call_tools import CallTools
from graphrag.voice.model_connection import FAIR_EVENTS
from graphrag.voice.realtime_engine import RealtimeEngine
from graphrag.voice.send_queue import SendQueue
from graphrag.voice.text_engine import TextEngine

log = logging.getLogger(__name__)

FINISH_S: Final = 10.0  # for running tools at the end, and for each write after it
CLOSE_S: Final = 2.0
DECISIONS_S: Final = 1.0  # interval between checks for decisions made on other servers
MAX_EARLY_SIGNALS: Final = 300  # before the session is open, more than the sound kept of them
_REASONS: Final = frozenset(get_args(EndReason))


@final
class ActiveCall:
    """One call from the start of its stream. The caller holds its lease."""

    def __init__(
        self, setup: CallSetup, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> None:
        self._setup = setup
        self._deps = setup.deps
        self._phone = phone
        self._start = start
        self._hold = hold
        self.call_id = setup.thread.key
        self._metrics = AgentMetrics(setup.deps.metrics, setup.agent.agent_id)
        self._facts = {"call_id": self.call_id, "agent_id": setup.agent.agent_id}
        self._recorder = CallRecorder(setup, start.stream_id)
        self._open: OpenCall | None = None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._over: asyncio.Future[signals.CallOver] = self._loop.create_future()
        self._close_code = 1000
        self._early: deque[Signal] = deque(maxlen=MAX_EARLY_SIGNALS)
        self._phone_queue = SendQueue(phone.send, partial(self._end, signals.CallOver("line_lost")))
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._engine = self._new_engine()

    def _new_engine(self) -> CallEngine:
        parts = EngineParts(
            setup=self._setup,
            start=self._start,
            hold=self._hold,
            take=self._take,
            spawn=self._spawn,
            recorder=self._recorder,
        )
        if self._setup.engine == "text":
            return TextEngine(parts)
        return RealtimeEngine(parts)

    @property
    def feed(self) -> CallFeed:
        """The messages of the call, for its followers."""
        return self._recorder.feed

    @property
    def dialogue(self) -> CallDialogue | None:
        """The dialogue, None until the session is open."""
        return None if self._open is None else self._open.dialogue

    @property
    def tools(self) -> CallTools | None:
        """The tools, None until the session is open."""
        return None if self._open is None else self._open.tools

    async def serve(self) -> signals.CallOver:
        """Serves the call. Returns how it ended, after both sides are closed and tools finished."""
        self._spawn(self._phone_queue.run())
        self._spawn(self._read_phone())
        self._spawn(self._open_session())
        self._spawn(self._watch_lease())
        self._spawn(self._check_decisions())
        self._recorder.state("active")
        try:
            over = await self._over
        except asyncio.CancelledError:
            self._end(over := signals.CallOver("draining"))
            await self._finish(over)
            raise
        await self._finish(over)
        return over

    def end_soon(self, reason: EndReason) -> None:
        """Ends the call after the agent has said goodbye."""
        self._take(signals.EndWanted(reason))

    async def decided(self, approval_id: str) -> None:
        """Tells the model the decision about a proposal. Raises: SourceError, ApprovalNotFound."""
        note = await self.tools.decided(approval_id) if self.tools is not None else None
        if note is not None:
            self._take(signals.Note(note))

    async def _check_decisions(self) -> None:
        """Checks for decisions that were made on other servers, at notices and regularly."""
        with self._deps.approvals.records.notices.subscribed(APPROVAL) as inbox:
            while True:
                await inbox.wait(DECISIONS_S)
                for approval_id in list(self.tools.waiting) if self.tools is not None else ():
                    try:
                        await self.decided(approval_id)
                    except Exception:  # the next check tries again
                        log.exception("decision_unread", extra=self._facts)

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # it may not have started
        return task

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Ends the call if `work` fails, without affecting other calls."""
        try:
            await work
        except Exception as exc:  # noqa: BLE001 - logged there
            self._failed(exc)

    def _failed(self, exc: Exception) -> None:
        log.error(
            "call_failed",
            extra=self._facts | {"error": type(exc).__name__},
            exc_info=exc,
        )
        self._end(signals.CallOver("error"))

    def _end(self, over: signals.CallOver) -> None:
        if not self._over.done():
            self._over.set_result(over)

    async def _open_session(self) -> None:
        """Stores the conversation and starts the dialogue with the signals received so far."""
        try:
            self._open = await self._engine.open()
        except (AgentError, PromptError, SettingsError, SourceError, UsageLimitReached) as exc:
            log.warning("session_failed", extra=self._facts | {"error": type(exc).__name__})
            self._end(signals.CallOver("session_failed"))
            return
        self._recorder.opened(self._open)
        self._spawn(self._recorder.keep())
        self._engine.begin()
        self._take(signals.Tick())
        while self._early:
            self._take(self._early.popleft())

    async def _read_phone(self) -> None:
        number = 0
        async for text in self._phone.messages():
            try:
                signal = self._engine.reader.read(text)
            except MessageRefused as refused:
                facts = self._facts | {"reason": refused.reason}
                log.warning("message_refused", extra=facts)
                self._close_code = refused.close_code
                self._end(signals.CallOver("error"))
                return
            if signal is not None and not isinstance(signal, StreamStart):
                self._take(signal)
            if (number := number + 1) % FAIR_EVENTS == 0:
                await asyncio.sleep(0)
        self._take(self._engine.reader.closed(self._phone.closed_with))

    async def _watch_lease(self) -> None:
        """Ends the call on request of another process, at once if that process took the lease."""
        try:
            with self._hold.step():
                await self._loop.create_future()
        except TurnUnwanted as unwanted:
            is_reason = unwanted.reason in _REASONS
            self.end_soon(cast(EndReason, unwanted.reason) if is_reason else "draining")
        except ThreadBusy:
            self._end(signals.CallOver("lost"))

    # -- the one place that feeds the dialogue

    def _take(self, signal: Signal) -> None:
        """Feeds a signal to the dialogue and carries out its actions, without waiting."""
        if self._over.done():
            return
        if self._open is None:
            self._keep_early(signal)
            return
        now = self._loop.time()
        for action in self._open.dialogue.feed(signal, now):
            self._do(action, now)
        self._set_timer(self._open.dialogue, now)
        self._engine.fed(signal, now)

    def _keep_early(self, signal: Signal) -> None:
        """Keeps signals until the session is open, except those that end the call."""
        if isinstance(signal, signals.PhoneStopped | signals.EndWanted):
            self._end(signals.CallOver(signal.reason))
        else:
            self._early.append(signal)

    def _do(self, action: Action, now: float) -> None:
        match action:
            case signals.SendPhone():
                if self._recorder.sounded(round((now - self._began) * 1000)):
                    self._metrics.counted("voice_first_audio_seconds", now - self._began)
                self._phone_queue.put(action.text)
            case signals.WordsChanged():
                self._recorder.words(action.item_id)
            case signals.Counted():
                self._count(action, now)
            case signals.RunTool():
                self._spawn(self._run_tool(action))
            case signals.ModelRefused():
                self._refused(action.refusal)
            case signals.CallOver():
                self._end(action)
            case _:
                self._engine.do(action)

    def _refused(self, refusal: ModelRefusal) -> None:
        """Logs and records a refusal of the model's service."""
        facts = {"code": refusal.code, "param": refusal.param, "sentence": refusal.message}
        log.warning("model_refused", extra=self._facts | facts)
        self._recorder.refused(refusal)
        self._recorder.state("active")
        self._spawn(self._tell_health(refusal))

    async def _tell_health(self, refusal: ModelRefusal) -> None:
        with suppress(AgentError, SourceError):  # the record holds the refusal as well
            await self._deps.agents.model_failed(self._setup.agent.agent_id, refusal)

    def _set_timer(self, dialogue: CallDialogue, now: float) -> None:
        """Schedules the next `Tick`. An earlier timer is kept: it schedules again."""
        at = None if self._over.done() else dialogue.next_time()
        if at is None or (self._timer is not None and now < self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._take(signals.Tick())
        except Exception as exc:  # noqa: BLE001 - the loop would only log it
            self._failed(exc)

    async def _run_tool(self, wanted: signals.RunTool) -> None:
        assert self.tools is not None
        try:
            output = await self.tools.run(wanted)
        finally:
            self._recorder.touch()
        self._take(output)

    def _count(self, counted: signals.Counted, now: float) -> None:
        name, _, code = counted.name.partition(".")
        if name == "voice_barge_in":
            facts = self._facts | {"heard_ms": round(counted.value)}
            self._phone_queue.measure(
                self._metrics,
                "voice_barge_in_seconds",
                since=now,
                measured=lambda seconds: log.info(
                    "barge_in", extra=facts | {"reaction_ms": round(seconds * 1e3, 1)}
                ),
            )
            self._metrics.counted(name)
            return
        if name == "voice_turn_seconds":
            self._recorder.answered(counted.value)
        self._metrics.counted(name, counted.value, code=code)

    # -- the end

    def _stop_dialogue(self, over: signals.CallOver) -> None:
        """Ends the dialogue, which cuts the words that the caller has not heard."""
        if self._open is None or self._open.dialogue.phase == "ended":
            return
        try:
            for action in self._open.dialogue.feed(
                signals.PhoneStopped(over.reason), self._loop.time()
            ):
                if isinstance(action, signals.WordsChanged):
                    self._recorder.words(action.item_id)
                elif isinstance(action, signals.CutAnswer):
                    self._engine.do(action)
        except Exception:  # probably the failure that ended the call
            log.exception("call_end_incomplete", extra=self._facts)

    async def _finish(self, over: signals.CallOver) -> None:
        """Stores the reason, closes both sides, waits for running tools and stores the results."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_dialogue(over)
        self._recorder.state("ending")
        ending = {"status": "ending", "end_reason": over.reason}
        ending |= {"destination": over.destination, "said_goodbye": over.said_goodbye}
        await _within(CLOSE_S, self._recorder.store(**ending))
        await _within(CLOSE_S, self._phone.close(self._close_code))
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=FINISH_S + CLOSE_S)
        await _within(CLOSE_S, self._setup.close())
        await _within(FINISH_S, self._recorder.store())
        self._metrics.counted("voice_stream_gaps", self._engine.reader.gaps)
        self._metrics.counted("voice_bad_messages", self._engine.reader.bad)


async def _within(seconds: float, work: Coroutine[Any, Any, Any]) -> None:
    """Awaits `work` at most `seconds`. Failures are logged: the end of a call goes on."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except Exception as exc:  # noqa: BLE001 - the remaining steps must run
        log.warning("call_end_incomplete", extra={"error": type(exc).__name__})
