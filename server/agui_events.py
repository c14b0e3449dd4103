"""The events of a turn as the events of an AG-UI run. Pure.

Source: AG-UI 1.0, events.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    StateDeltaEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.core import Message as ProtocolMessage
from ag_ui.core import ToolCall as ProtocolCall
from ag_ui.core import ToolMessage as ProtocolResult
from ag_ui.core import UserMessage as ProtocolQuestion

from graphrag.agent.events import (
    ActionApplied,
    Completed,
    Ending,
    Event,
    Failed,
    PromptRead,
    ProposalPending,
    QuestionAsked,
    Token,
    ToolFinished,
    ToolLimit,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from graphrag.agent.thread_messages import from_stored, is_note
from graphrag.i18n import Language
from graphrag.llm.base import AssistantMessage as StoredAnswer
from graphrag.llm.base import Message, ToolMessage, UserMessage
from server.agui_interrupts import Links, json_size, of_limit, of_proposals, of_question
from server.error_responses import without_places
from tools.compact import cut
from tools.proposals import to_document

VERSION = "1.0"
READING = "read_prompt"
MAX_RESULT = 65_536
"""A tool's result, its arguments and a message of a snapshot are cut after so many characters."""
MAX_MESSAGES = 4 * MAX_RESULT
"""A snapshot holds the latest messages, of so many characters in all."""
MAX_CONTEXT = 200


class RunMapping:
    """One run on its way to a client.

    `sent_before`: ids of calls whose arguments were sent in an earlier run of the thread; `turn`: its last.
    """

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        language: Language,
        link: Links,
        sent_before: Collection[str] = (),
        turn: int = 0,
    ) -> None:
        self._thread_id, self._run_id = thread_id, run_id
        self._language: Language = language
        self._link, self._sent_before = link, frozenset(sent_before)
        self._message: str | None = None
        self._parent: str | None = None
        self._turn = turn
        self._reading = False
        self._open: dict[str, None] = {}
        self._ended: set[str] = set()
        self._used: list[UsageReported] = []

    def started(self) -> RunStartedEvent:
        return RunStartedEvent(thread_id=self._thread_id, run_id=self._run_id, protocol_version=VERSION)

    def events(self, event: Event) -> Iterator[BaseEvent]:
        """Yield what a client is sent of an event. Of an applied change: nothing, that is state."""
        if not isinstance(event, PromptRead):
            yield from self._read()
        match event:
            case TurnStarted():
                self._turn = event.turn
                yield _context(event)
            case Token() if event.text:
                yield from self._said(event.text)
            case PromptRead():
                yield from self._reads(event)
            case ToolStarted():
                yield from self._silent()
                yield from self._begun(event.call_id, event.name)
            case ToolFinished():
                yield from self._silent()
                yield from self._result(event)
            case UsageReported():
                self._used.append(event)
            case Token() | ActionApplied():
                pass
            case _:
                yield from self._end(event)

    def finished(self, outcome: RunFinishedOutcome | None = None) -> Iterator[BaseEvent]:
        """Close what is open, and the run."""
        yield from self._silent()
        for call_id in list(self._open):
            yield self._closed(call_id)
        ended = outcome or RunFinishedSuccessOutcome()
        yield RunFinishedEvent(
            thread_id=self._thread_id, run_id=self._run_id, outcome=ended, usage=self._usage()
        )

    def failed(self, code: str, message: str) -> Iterator[BaseEvent]:
        yield from self._silent()
        for call_id in list(self._open):
            yield self._closed(call_id)
        yield RunErrorEvent(message=without_places(message), code=code, usage=self._usage())

    def _end(self, event: Ending) -> Iterator[BaseEvent]:
        match event:
            case Completed():
                cancelled = RunFinishedCancelledOutcome() if event.stopped else None
                yield from self.finished(cancelled)
            case ProposalPending():
                for approval in event.approvals:
                    yield from self._written(
                        approval.tool_call_id,
                        {**to_document(approval.action)["payload"], "reason": approval.reason},
                    )
                yield from self._waiting(of_proposals(event, self._language, self._link))
            case QuestionAsked():
                yield from self._written(event.asked.call_id, event.asked.question.document)
                yield from self._waiting([of_question(event)])
            case ToolLimit():
                yield from self._waiting([of_limit(event, self._turn, self._language)])
            case Failed():
                yield from self.failed(event.fault.code, event.fault.message(self._language))

    def _waiting(self, interrupts: list[Interrupt]) -> Iterator[BaseEvent]:
        yield from self.finished(RunFinishedInterruptOutcome(interrupts=interrupts))

    def _said(self, text: str) -> Iterator[BaseEvent]:
        if self._message is None:
            text = text.lstrip("\n")
            if not text:
                return
            self._message = self._parent = f"m_{uuid.uuid4().hex}"
            yield TextMessageStartEvent(message_id=self._message, role="assistant")
        yield TextMessageContentEvent(message_id=self._message, delta=text)

    def _silent(self) -> Iterator[BaseEvent]:
        """End what is being said and read."""
        yield from self._read()
        if self._message is not None:
            yield TextMessageEndEvent(message_id=self._message)
            self._message = None

    def _reads(self, event: PromptRead) -> Iterator[BaseEvent]:
        if not self._reading:
            self._reading = True
            yield StepStartedEvent(step_name=READING)
        yield CustomEvent(name="nodius.prompt_read", value={"tokens": event.done, "of": event.total})

    def _read(self) -> Iterator[BaseEvent]:
        if self._reading:
            self._reading = False
            yield StepFinishedEvent(step_name=READING)

    def _begun(self, call_id: str, name: str) -> Iterator[BaseEvent]:
        if call_id not in self._open and call_id not in self._ended:
            self._open[call_id] = None
            yield ToolCallStartEvent(
                tool_call_id=call_id, tool_call_name=name, parent_message_id=self._parent
            )

    def _written(self, call_id: str, arguments: Mapping[str, Any]) -> Iterator[BaseEvent]:
        """Yield the arguments of a call that waits and was begun in this run."""
        if call_id in self._open and json_size(arguments, MAX_RESULT) is not None:
            yield ToolCallArgsEvent(tool_call_id=call_id, delta=json.dumps(arguments, ensure_ascii=False))

    def _closed(self, call_id: str) -> ToolCallEndEvent:
        del self._open[call_id]
        self._ended.add(call_id)
        return ToolCallEndEvent(tool_call_id=call_id)

    def _result(self, event: ToolFinished) -> Iterator[BaseEvent]:
        call_id = event.call_id
        yield from self._begun(call_id, event.name)
        if call_id in self._open:
            if event.arguments and call_id not in self._sent_before:
                yield ToolCallArgsEvent(tool_call_id=call_id, delta=_as_json(event.arguments))
            yield self._closed(call_id)
        self._parent = None  # what is said next answers the result
        content = cut(event.result_text, MAX_RESULT)
        metadata = {"nodius": {"isError": True}} if event.is_error else None
        yield ToolCallResultEvent(
            message_id=f"r_{uuid.uuid4().hex}",
            tool_call_id=call_id,
            content=content,
            role="tool",
            metadata=metadata,
        )

    def _usage(self) -> list[TokenUsage] | None:
        if not self._used:
            return None
        prompt, completion = sum(u.prompt for u in self._used), sum(u.completion for u in self._used)
        return [
            TokenUsage(
                input_tokens=prompt,
                output_tokens=completion,
                total_tokens=prompt + completion,
                reasoning_tokens=sum(u.reasoning for u in self._used),
                cached_input_tokens=sum(u.cached for u in self._used),
                cache_write_input_tokens=sum(u.cache_written for u in self._used),
            )
        ]


def _context(event: TurnStarted) -> StateDeltaEvent:
    """Return as a change of state which nodes the model is shown, and why."""
    shown = [
        {"nodeKey": key, "reasons": list(event.reasons.get(key, ()))} for key in event.retrieved[:MAX_CONTEXT]
    ]
    return StateDeltaEvent(delta=[{"op": "replace", "path": "/context", "value": shown}])  # pyright: ignore[reportArgumentType]


def _as_json(written: str) -> str:
    """Return arguments as they were written, or as one JSON text where they are not JSON or too long."""
    try:
        json.loads(written)
    except (ValueError, RecursionError):
        return json.dumps(cut(written, MAX_RESULT))
    return written if len(written) <= MAX_RESULT else json.dumps(cut(written, MAX_RESULT))


def encoded(event: BaseEvent) -> str:
    """Return an event as JSON, with the time at which it is sent."""
    event.timestamp = time.time_ns() // 1_000_000
    return event.model_dump_json(by_alias=True)


def snapshot(history: Sequence[Any]) -> MessagesSnapshotEvent:
    """Return the latest messages of a stored conversation, without the notes of the service."""
    latest: list[ProtocolMessage] = []
    room = MAX_MESSAGES
    said = from_stored(raw for raw in history if not is_note(raw))
    for number, message in reversed(list(enumerate(said))):
        shown = _shown(message, message.id or f"stored_{number}")
        if shown is None:
            continue
        room -= len(shown.model_dump_json())
        if room < 0:
            break
        latest.append(shown)
    while latest and isinstance(latest[-1], ProtocolResult):  # its call is left out
        latest.pop()
    return MessagesSnapshotEvent(messages=latest[::-1])


def _shown(message: Message, key: str) -> ProtocolMessage | None:
    match message:
        case UserMessage():
            return ProtocolQuestion(id=key, content=cut(message.content, MAX_RESULT))
        case ToolMessage():
            content = cut(message.content, MAX_RESULT)
            return ProtocolResult(id=key, content=content, tool_call_id=message.call_id)
        case StoredAnswer():
            calls = [
                ProtocolCall(
                    id=call.id,
                    function=FunctionCall(name=call.name, arguments=cut(call.arguments, MAX_RESULT)),
                )
                for call in message.tool_calls
            ]
            text = cut(message.content, MAX_RESULT)
            return AssistantMessage(id=key, content=text, tool_calls=calls or None)
        case _:
            return None
