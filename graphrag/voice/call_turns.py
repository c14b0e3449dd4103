"""The turns of a call that the model of chats answers: the loop of a chat, with a call's tools.

One turn runs at a time. Its thread is written by the call (`CallThread`), which holds the lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

from graphrag.agent.chat_turn import ChatKind
from graphrag.agent.events import Event, Failed, Token, TurnFault, UsageReported, classify
from graphrag.agent.history import said_count, unanswered
from graphrag.agent.reply import Reply
from graphrag.agent.requested_calls import Answered, CallLimits, Requested, left_out
from graphrag.agent.thread_store import TurnStatus
from graphrag.agent.tool_calls import CallPlace, CallRunner
from graphrag.agent.turn import Turn
from graphrag.agent.turn_events import opening, turn_events
from graphrag.agent.turn_steps import AgentLimits, TurnSteps
from graphrag.approvals import Approval, Approvals
from graphrag.bridge import signals
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolCall, UserMessage
from graphrag.voice.call_engine import AnswerTokens, EngineParts
from graphrag.voice.call_thread import CallThread
from graphrag.voice.call_tools import CallTools
from graphrag.voice.dependencies import ChatTurns
from tools.tool_box import ToolBox

KEPT_ANSWERS: Final = 4  # that can still be cut: those that may still be spoken


@final
@dataclass(slots=True, kw_only=True)
class SpokenCalls:
    """A `CallRunner` that runs the tools of a call. A proposal waits for nobody: the model is told
    its code.

    `ends`: a tool has ended the call.
    """

    tools: CallTools
    plain: CallRunner
    take: Callable[[signals.Signal], None]
    touch: Callable[[], None]
    ends: bool = False

    @property
    def limits(self) -> CallLimits:
        return self.plain.limits

    def with_tools(self, box: ToolBox, graphs: tuple[str, ...] = ()) -> CallRunner:
        return self.plain.with_tools(box, graphs)

    def unusable(self, requested: Requested, place: CallPlace) -> list[Answered]:
        return self.plain.unusable(requested, place)

    def writes(self, name: str) -> bool:
        tool = self.tools.box.get(name)
        return tool is not None and tool.effect == "proposes"

    def only_read(self, requested: Requested) -> bool:
        tools = [self.tools.box.get(call.name) for call in requested.calls]
        return all(tool is None or tool.effect == "read" for tool in tools)

    async def run(self, requested: Requested, place: CallPlace) -> AsyncGenerator[Answered]:
        """Yields each call with its answer, in order.

        If it is closed or cancelled, acts under way are finished, see `ToolCalls`.
        """
        limit = self.limits.calls_a_step
        refused = left_out(requested, self.tools.box, place.context, limit=limit)
        running = {
            call.id: asyncio.create_task(self._run(call))
            for call in requested.calls
            if call.id not in refused
        }
        try:
            for call in requested.calls:
                yield refused[call.id] if call.id in refused else await running[call.id]
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    async def _run(self, call: ToolCall) -> Answered:
        wanted = signals.RunTool(call.id, call.name, call.arguments)
        self.take(signals.ToolBegan(call.id, call.name))
        try:
            output, answered = await self.tools.run_whole(wanted)
        finally:
            self.touch()
        self.ends = self.ends or output.ends
        self.take(output)
        return replace(answered, result=replace(answered.result, text=output.output), approval=None)


@final
@dataclass(slots=True, kw_only=True)
class CallKind:
    """A `TurnKind` for the turns of a call."""

    thread: CallThread
    calls: SpokenCalls
    _chat: ChatKind = field(default_factory=ChatKind)

    async def save(self, turn: Turn, status: TurnStatus, _waits_for: Any) -> None:
        """Stores the thread with the messages and the state of the turn."""
        turn.change(status=status, text="")
        turn.change_thread(
            message_count=said_count(turn.messages), tool_call_count=len(self.thread.tools)
        )
        await self.thread.save_turn(turn.stored.thread, turn.messages)

    def correct(self, turn: Turn, reply: Reply) -> bool | None:
        return self._chat.correct(turn, reply)

    def accept(self, turn: Turn, requested: Requested, _writes: Callable[[str], bool]) -> Requested:
        """Returns the calls within the call's limit of tool calls."""
        calls = requested.calls
        limit = self.thread.agent.document.limits.max_tool_calls
        left = max(0, limit - len(self.thread.tools))
        turn.conversation.refuse("calls_spent", calls[left:], calls=str(limit))
        return replace(requested, calls=calls[:left])

    def record_call(self, _turn: Turn, _call: ToolCall, _answered: Answered | None) -> bool:
        return False  # the tools of the call have recorded it

    async def end_step(
        self, _turn: Turn, _approvals: Approvals, _proposals: list[Approval]
    ) -> tuple[list[Event], list[Approval]]:
        return [], []

    def final_text(self, turn: Turn) -> str | None:
        """Returns the text of a turn in which a tool ended the call, once something was said."""
        return turn.text if self.calls.ends and turn.text.strip() else None

    async def stop(self, turn: Turn, reason: str | None) -> None:
        """Stores the turn with what was said, and with the results of acts that were finished."""
        self._answer_finished(turn)
        await self._chat.stop(turn, reason)

    async def fail(self, turn: Turn, fault: TurnFault) -> None:
        """Stores the turn with what was said: the model may be asked to go on."""
        turn.keep_partial_reply()
        self._answer_finished(turn)
        await self._chat.fail(turn, fault)

    def _answer_finished(self, turn: Turn) -> None:
        for call in unanswered(turn.messages):
            entry = self.thread.tools.get(call.id)
            if entry is not None and entry.result is not None:
                turn.conversation.answer(call, entry.result, failed=not entry.ok)


@final
class CallTurns:
    """The model side of a call: answers one question after another.

    `prompt`: the instructions. `turns`: those of chats, without tools of the call.
    """

    def __init__(
        self,
        parts: EngineParts,
        turns: ChatTurns,
        thread: CallThread,
        tools: CallTools,
        prompt: str,
    ) -> None:
        """Raises: SettingsError if the model of the agent's document cannot be used."""
        self._parts = parts
        self._thread = thread
        self._tools = tools
        self._prompt = prompt
        self._calls = SpokenCalls(
            tools=tools,
            plain=turns.plain.steps.calls,
            take=parts.take,
            touch=parts.recorder.touch,
        )
        self._kind = CallKind(thread=thread, calls=self._calls)
        self._steps = self._steps_of(turns)
        self._graph = replace(turns.plain, steps=self._steps)
        self._task: asyncio.Task[None] | None = None
        self._fault: TurnFault | None = None
        self._is_kept = False  # the question of the last turn is in the thread
        # words of the caller, and notes, that are not in the thread
        self._unasked, self._notes = "", list[str]()
        self._answers: dict[int, list[str]] = {}  # ids of the messages of each answer
        self._cuts: list[signals.CutAnswer] = []

    def _steps_of(self, turns: ChatTurns) -> TurnSteps:
        chat = self._thread.agent.document.chat
        provider, pricing = turns.model(chat.provider, chat.model)
        steps = turns.plain.steps
        caller = steps.caller.with_tools(
            self._tools.box, provider, lambda: pricing, temperature=chat.temperature
        )
        limits = AgentLimits(rounds=chat.max_rounds, max_rounds=chat.max_rounds)
        return replace(steps, caller=caller, calls=self._calls, limits=limits)

    @property
    def provider_name(self) -> str:
        return self._steps.caller.provider.name

    # -- requests of the dialogue

    def ask(self, asked: signals.AskModel) -> None:
        """Starts to answer. The answer before has ended."""
        self._fault = None
        if not asked.repeats:
            self._is_kept = False
            self._unasked = f"{self._unasked}\n{asked.words}".strip()
            self._notes += asked.notes
        self._task = self._parts.spawn(self._answer(asked))
        self._task.add_done_callback(lambda _: self._parts.spawn(self._report(asked.number)))

    def stop(self) -> None:
        """Breaks the answer off. What was done stays done."""
        if self._task is not None:
            self._task.cancel()

    def cut(self, cut: signals.CutAnswer) -> None:
        """Cuts an answer in what the model remembers, at the latest when the answer has ended."""
        self._cuts.append(cut)
        if self._task is None or self._task.done():
            self._apply_cuts()

    def welcome(self, text: str) -> None:
        """Records the welcome as the model's first answer."""
        self._answers[0] = self._thread.say(AssistantMessage(content=text))

    # -- a turn

    async def _report(self, number: int) -> None:
        self._apply_cuts()
        fault = self._fault
        failure = None if fault is None else fault.code
        may_retry = fault is not None and fault.retryable
        self._parts.take(signals.AnswerEnded(number, failure, may_retry=may_retry))

    async def _answer(self, asked: signals.AskModel) -> None:
        turn = self._new_turn()
        number = turn.state.number
        before = {message.id for message in turn.messages}
        try:
            async with opening(turn):
                await self._steps.caller.prepare()
                await self._open(turn)
                await turn.save("running")
            await self._run(turn, asked.number)
        except Exception as exc:  # noqa: BLE001 - a failed answer; the call may go on
            self._fault = classify(exc)
        finally:
            if self._is_kept or turn.state.number > number:
                self._is_kept, self._unasked = True, ""
                self._notes.clear()
            said = [m for m in turn.messages if isinstance(m, AssistantMessage)]
            self._answers[asked.number] = [m.id for m in said if m.id and m.id not in before]
            for number in list(self._answers)[:-KEPT_ANSWERS]:
                del self._answers[number]

    async def _run(self, turn: Turn, number: int) -> None:
        async with aclosing(turn_events(turn, self._steps.run(turn))) as events:
            async for event in events:
                if isinstance(event, Token):
                    self._parts.take(signals.AnswerWords(number, event.text))
                elif isinstance(event, UsageReported):
                    usage = AnswerTokens(
                        text_in=event.prompt, text_out=event.completion, cost_usd=event.cost_usd
                    )
                    self._parts.recorder.used(usage)
        if isinstance(turn.ending, Failed):
            self._fault = turn.ending.fault

    def _new_turn(self) -> Turn:
        tools = self._tools
        return Turn(
            self._tools.deps.threads,
            self._thread.stored,
            tools.person,
            tools.language,
            self._parts.hold,
            self._kind,
            tools.role,
            interactive=False,
        )

    async def _open(self, turn: Turn) -> None:
        """Begins a turn with the caller's words, or with notes alone."""
        if turn.conversation.instructions is None:
            turn.conversation.insert_instructions(SystemMessage(content=self._prompt))
        rounds = self._steps.limits.rounds
        notes = [SystemMessage(content=note, stable=False) for note in self._notes]
        if self._is_kept:
            turn.begin(None, None, rounds=rounds)
            return
        if not self._unasked:
            turn.begin(None, None, rounds=rounds, notes=notes)
            return
        question = UserMessage(content=self._unasked)
        if turn.graph_key:
            await self._graph.open(turn, question)  # with what is retrieved for it
        else:
            turn.begin(None, question, rounds=rounds)
        turn.conversation.add(*notes)

    # -- what the caller has heard

    def _apply_cuts(self) -> None:
        cuts, self._cuts = self._cuts, []
        for cut in cuts:
            ids = self._answers.get(cut.number)
            if ids:
                self._thread.cut(ids, cut.heard)
        if cuts:
            self._parts.recorder.touch()
