"""Holds one call: reads both sides, feeds the bridge in one place, and carries out what it wants.

Nothing waits in the place that feeds: frames go through lines of their own, tools run in tasks of
their own. Whatever ends the call, it ends once: its record says why before the phone side is
closed, because the telephone service asks at that moment what comes next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast, get_args

from datasources.errors import SourceError
from graphrag.agent.thread_agent import EndReason
from graphrag.agent.thread_store import ThreadBusy
from graphrag.agent.turn_lease import TurnLease, TurnUnwanted
from graphrag.agents.errors import AgentError
from graphrag.agents.model_refusal import ModelRefusal
from graphrag.llm.usage_meter import UsageLimitReached
from graphrag.prompts.library import PromptError
from graphrag.voice import signals
from graphrag.voice.bridge import Bridge
from graphrag.voice.call_book import CallBook
from graphrag.voice.call_feed import CallFeed
from graphrag.voice.call_opening import CallOpening
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools
from graphrag.voice.model_connection import FAIR_EVENTS, ModelConnection
from graphrag.voice.phone_messages import MessageRefused, PhoneMessages, PhoneSide, StreamStart
from graphrag.voice.send_queue import SendQueue
from graphrag.voice.signals import Action, Signal

log = logging.getLogger(__name__)

FINISH_S: Final = 10.0
"""So long at most what is under way at the end may take: acts, and then each thing
that is stored.
"""
CLOSE_S: Final = 2.0
DECISIONS_S: Final = 1.0
KEPT_SIGNALS: Final = 300
"""What the phone side says before the session is there: more than the sound that is kept of it."""
PAID: Final = ("response.done", "conversation.item.input_audio_transcription.completed")
"""Events of a model's service that say what was used."""
MEASURED_FRAMES: Final = 50
_REASONS: Final = frozenset(get_args(EndReason))


class CallRunner:
    """One call from the start of its stream on, for who holds its lease."""

    def __init__(
        self, opening: CallOpening, phone: PhoneSide, start: StreamStart, hold: TurnLease
    ) -> None:
        self._opening = opening
        self._parts = opening.parts
        self._phone = phone
        self._start = start
        self._hold = hold
        self.call_id = opening.thread.key
        self._book = CallBook(opening, start.stream_id)
        self.bridge: Bridge | None = None
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._over: asyncio.Future[signals.CallOver] = self._loop.create_future()
        self._close_code = 1000
        self._messages = PhoneMessages(started=True)
        self._early: deque[Signal] = deque(maxlen=KEPT_SIGNALS)
        self._to_phone = SendQueue(phone.send, partial(self._end, signals.CallOver("line_lost")))
        self._model = ModelConnection(opening, self._take, self._spawn)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._frames = 0

    @property
    def feed(self) -> CallFeed:
        """What happens in it, for those who follow."""
        return self._book.feed

    @property
    def tools(self) -> CallTools | None:
        """Its tools, once its session is there."""
        return self._book.tools

    async def serve(self) -> signals.CallOver:
        """Hold the call; return how it ended, once both sides are closed and what
        acts has finished.
        """
        self._spawn(self._to_phone.run())
        self._spawn(self._read_phone())
        self._spawn(self._open())
        self._spawn(self._watch_lease())
        self._spawn(self._look_for_decisions())
        self._book.state("active")
        try:
            over = await self._over
        except asyncio.CancelledError:
            self._end(over := signals.CallOver("draining"))
            await self._finish(over)
            raise
        await self._finish(over)
        return over

    def end_soon(self, reason: EndReason) -> None:
        """Let the agent say goodbye, then end."""
        self._take(signals.EndWanted(reason))

    async def decided(self, approval_id: str) -> None:
        """Tell the model what was decided about a proposal. Raises: SourceError,
        ApprovalNotFound.
        """
        note = await self.tools.decided(approval_id) if self.tools is not None else None
        if note is not None:
            self._take(signals.Note(note))

    async def _look_for_decisions(self) -> None:
        """Look now and then whether a person decided about a proposal on another server."""
        while True:
            await asyncio.sleep(DECISIONS_S)
            for approval_id in list(self.tools.waiting) if self.tools is not None else ():
                try:
                    await self.decided(approval_id)
                except Exception:  # it is looked at again
                    log.exception("decision_unread")

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # it may never have begun
        return task

    async def _guarded(self, work: Awaitable[None]) -> None:
        """A fault of ours ends the call, and nothing else."""
        try:
            await work
        except Exception as exc:  # noqa: BLE001 - logged there
            self._failed(exc)

    def _failed(self, exc: Exception) -> None:
        log.error(
            "call_failed",
            extra={"call_id": self.call_id, "error": type(exc).__name__},
            exc_info=exc,
        )
        self._end(signals.CallOver("error"))

    def _end(self, over: signals.CallOver) -> None:
        if not self._over.done():
            self._over.set_result(over)

    async def _open(self) -> None:
        """Store the conversation and begin the bridge, with what the phone side
        has said meanwhile.
        """
        opening = self._opening
        parts = self._parts
        try:
            stored, session, prompt = await opening.answered()
        except (AgentError, PromptError, SourceError, UsageLimitReached) as exc:
            log.warning(
                "session_failed", extra={"call_id": self.call_id, "error": type(exc).__name__}
            )
            self._end(signals.CallOver("session_failed"))
            return
        said = self._book.transcript
        thread = CallThread(opening.agent, stored, parts.life, parts.threads, self._hold, said)
        tools = CallTools(parts=parts, thread=thread, hold=self._hold, show=self._book.show)
        voice = opening.voice_session(stored, session, prompt, tools.box.offered(tools.role))
        now = self._loop.time()
        self.bridge = Bridge(
            voice, self._start.stream_id, now, wall=parts.threads.clock() / 1000 - now
        )
        self._book.bridge = self.bridge
        self._book.thread = thread
        self._book.tools = tools
        self._spawn(self._book.keep())
        self._model.begin()
        while self._early:
            self._take(self._early.popleft())

    async def _read_phone(self) -> None:
        number = 0
        async for text in self._phone.messages():
            try:
                signal = self._messages.read(text)
            except MessageRefused as refused:
                self._close_code = refused.close_code
                self._end(signals.CallOver("error"))
                return
            if signal is not None and not isinstance(signal, StreamStart):
                self._take(signal)
            if (number := number + 1) % FAIR_EVENTS == 0:
                await asyncio.sleep(0)
        self._take(signals.PhoneStopped("line_lost"))

    async def _watch_lease(self) -> None:
        """End the call when somebody asks for it elsewhere; leave it at once
        where it is another's.
        """
        try:
            with self._hold.step():
                await self._loop.create_future()
        except TurnUnwanted as unwanted:
            known = unwanted.reason in _REASONS
            self.end_soon(cast(EndReason, unwanted.reason) if known else "draining")
        except ThreadBusy:
            self._end(signals.CallOver("lost"))

    # -- the one place that feeds the bridge

    def _take(self, signal: Signal) -> None:
        """Feed a signal and carry out what is wanted. It waits for nothing."""
        if self._over.done():
            return
        if self.bridge is None:
            self._before(signal)
            return
        now = self._loop.time()
        for action in self.bridge.feed(signal, now):
            self._do(action, now)
        self._set_timer(now)
        if isinstance(signal, signals.PhoneAudio):
            self._frames += 1
            if self._frames % MEASURED_FRAMES == 0 and self._model.line is not None:
                self._measure(self._model.line, "voice_frame_added_seconds", now)
        elif isinstance(signal, signals.ModelEvent) and signal.event["type"] in PAID:
            self._book.used(signal.event)

    def _before(self, signal: Signal) -> None:
        """Keep what comes before the session is there; an end is an end."""
        if isinstance(signal, signals.PhoneStopped | signals.EndWanted):
            self._end(signals.CallOver(signal.reason))
        else:
            self._early.append(signal)

    def _do(self, action: Action, now: float) -> None:
        match action:
            case signals.SendModel():
                self._model.put(action.text)
            case signals.SendPhone():
                if self._book.first_audio_ms is None:
                    self._book.first_audio_ms = round((now - self._began) * 1000)
                    self._parts.watch.counted("voice_first_audio_seconds", now - self._began)
                self._to_phone.put(action.text)
            case signals.WordsChanged():
                self._book.words(action.item_id)
            case signals.Counted():
                self._count(action, now)
            case signals.RunTool():
                self._spawn(self._run_tool(action))
            case signals.Reconnect():
                self._model.again(action.after_s)
            case signals.ModelRefused():
                self._refused(action.refusal)
            case signals.CallOver():
                self._end(action)

    def _refused(self, refusal: ModelRefusal) -> None:
        """Tells who operates this service what that of the model refused."""
        facts = {
            "call_id": self.call_id,
            "agent_id": self._opening.agent.agent_id,
            "code": refusal.code,
        }
        log.warning(
            "model_refused", extra=facts | {"param": refusal.param, "sentence": refusal.message}
        )
        self._book.refused(refusal)
        self._book.state("active")
        self._spawn(self._tell_health(refusal))

    async def _tell_health(self, refusal: ModelRefusal) -> None:
        with suppress(AgentError, SourceError):  # the record says it as well
            await self._parts.agents.model_failed(self._opening.agent.agent_id, refusal)

    def _set_timer(self, now: float) -> None:
        """Have the bridge fed when it asks for it; a timer that comes too early looks again."""
        assert self.bridge is not None
        at = None if self._over.done() else self.bridge.next_time()
        if at is None or (self._timer is not None and now < self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self._take(signals.Tick())
        except Exception as exc:  # noqa: BLE001 - of a callback nobody else would know
            self._failed(exc)

    async def _run_tool(self, wanted: signals.RunTool) -> None:
        assert self.tools is not None
        try:
            output = await self.tools.run(wanted)
        finally:
            self._book.changed.set()
        self._take(output)

    def _count(self, counted: signals.Counted, now: float) -> None:
        name, _, code = counted.name.partition(".")
        if name == "voice_barge_in":
            log.info("barge_in", extra={"call_id": self.call_id, "heard_ms": round(counted.value)})
            self._measure(self._to_phone, "voice_barge_in_seconds", now)
            self._parts.watch.counted(name)
            return
        if name == "voice_turn_seconds":
            self._book.answered(counted.value)
        self._parts.watch.counted(name, counted.value, code=code)

    def _measure(self, line: SendQueue, name: str, since: float) -> None:
        """Count how long it takes from `since` until all that waits in a line is sent."""
        line.on_sent = lambda: self._parts.watch.counted(name, self._loop.time() - since)

    # -- the end

    def _stop_bridge(self, over: signals.CallOver) -> None:
        """Cuts what the caller has not heard, also where the call did not end by what was
        said in it.
        """
        if self.bridge is None or self.bridge.phase == "ended":
            return
        try:
            for action in self.bridge.feed(signals.PhoneStopped(over.reason), self._loop.time()):
                if isinstance(action, signals.WordsChanged):
                    self._book.words(action.item_id)
        except Exception:  # it is what ended the call
            log.exception("call_end_incomplete", extra={"call_id": self.call_id})

    async def _finish(self, over: signals.CallOver) -> None:
        """Say why it ended, close both sides, finish what acts, and store all of it."""
        if self._timer is not None:
            self._timer.cancel()
        self._stop_bridge(over)
        self._book.state("ending")
        ending = {"status": "ending", "end_reason": over.reason}
        ending |= {"destination": over.destination, "said_goodbye": over.said_goodbye}
        await _within(CLOSE_S, self._book.store(**ending))
        await _within(CLOSE_S, self._phone.close(self._close_code))
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=FINISH_S + CLOSE_S)
        await _within(CLOSE_S, self._opening.close())
        await _within(FINISH_S, self._book.store())
        self._parts.watch.counted("voice_stream_gaps", self._messages.gaps)
        self._parts.watch.counted("voice_bad_messages", self._messages.bad)


async def _within(seconds: float, work: Coroutine[Any, Any, Any]) -> None:
    """Do what may hang or fail at the end of a call, for so long at most."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except Exception as exc:  # noqa: BLE001 - the rest of the end is more important
        log.warning("call_end_incomplete", extra={"error": type(exc).__name__})
