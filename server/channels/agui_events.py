"""The events of a turn as the events of an AG-UI run.

Source: AG-UI 1.0, events.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import ag_ui.core as ag

from graphrag.agent import events as agent_events
from graphrag.agent.thread_messages import from_stored, is_note
from graphrag.i18n import Language
from graphrag.llm import base as stored
from server.channels.agui_interrupts import json_size, of_limit, of_proposals, of_question
from server.channels.agui_state import context_state
from server.channels.turn_documents import (
    Document,
    Links,
    ending_document,
    proposal_arguments,
    tokens_document,
)
from server.redaction import without_places
from tools.compact import cut

VERSION = "1.0"
READING = "read_prompt"
# Units: characters. A tool's result, its arguments and a message of a snapshot are cut there.
MAX_RESULT = 65_536
# Units: characters of all messages of a snapshot, which holds the latest.
MAX_MESSAGES = 4 * MAX_RESULT


class RunMapping:
    """One run on its way to a client.

    `sent_before`: ids of calls whose arguments were sent in an earlier run of the thread;
    `turn`: its last.
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
        self._thread_id = thread_id
        self._run_id = run_id
        self._language: Language = language
        self._link, self._sent_before = link, frozenset(sent_before)
        self._message: str | None = None
        self._parent: str | None = None
        self._turn = turn
        self._reading = False
        self._open: dict[str, None] = {}
        self._ended: set[str] = set()
        self._used: list[agent_events.UsageReported] = []

    def started(self) -> ag.RunStartedEvent:
        return ag.RunStartedEvent(
            thread_id=self._thread_id, run_id=self._run_id, protocol_version=VERSION
        )

    def events(self, event: agent_events.Event) -> Iterator[ag.BaseEvent]:
        """Yields the events that a client receives for an event. An applied change has none: it is
        state.
        """
        if not isinstance(event, agent_events.PromptRead):
            yield from self._read()
        match event:
            case agent_events.TurnStarted():
                self._turn = event.turn
                yield context_state(event)
            case agent_events.Token() if event.text:
                yield from self._said(event.text)
            case agent_events.TextTakenBack():
                yield from self._silent()  # the answer is a message of its own
            case agent_events.PromptRead():
                yield from self._reads(event)
            case agent_events.ToolStarted():
                yield from self._silent()
                yield from self._begun(event.call_id, event.name)
            case agent_events.ToolFinished():
                yield from self._silent()
                yield from self._result(event)
            case agent_events.UsageReported():
                self._used.append(event)
            case agent_events.Token() | agent_events.ActionApplied():
                pass
            case _:
                yield from self._end(event)

    def finished(self, outcome: ag.RunFinishedOutcome | None = None) -> Iterator[ag.BaseEvent]:
        """Yields the end of everything that is open, and of the run."""
        yield from self._silent()
        for call_id in list(self._open):
            yield self._closed(call_id)
        ended = outcome or ag.RunFinishedSuccessOutcome()
        yield ag.RunFinishedEvent(
            thread_id=self._thread_id, run_id=self._run_id, outcome=ended, usage=self._usage()
        )

    def failed(self, code: str, message: str) -> Iterator[ag.BaseEvent]:
        yield from self._silent()
        for call_id in list(self._open):
            yield self._closed(call_id)
        yield ag.RunErrorEvent(message=without_places(message), code=code, usage=self._usage())

    def _end(self, event: agent_events.Ending) -> Iterator[ag.BaseEvent]:
        match event:
            case agent_events.Completed():
                yield from self._completed(ending_document(event, self._language))
            case agent_events.ProposalPending():
                for approval in event.approvals:
                    yield from self._written(approval.tool_call_id, proposal_arguments(approval))
                yield from self._waiting(of_proposals(event, self._language, self._link))
            case agent_events.QuestionAsked():
                yield from self._written(event.asked.call_id, event.asked.question.document)
                yield from self._waiting([of_question(event)])
            case agent_events.ToolLimit():
                yield from self._waiting([of_limit(event, self._turn, self._language)])
            case agent_events.Failed():
                error = ending_document(event, self._language)
                yield from self.failed(error["code"], error["message"])

    def _completed(self, document: Document) -> Iterator[ag.BaseEvent]:
        claims = document.get("notInGraph")
        if claims is not None:
            yield from self._silent()  # the note is a message of its own
            yield from self._said(str(claims["note"]))
            yield ag.CustomEvent(name="nodius.not_in_graph", value=claims)
        was_stopped = "stopped" in document
        yield from self.finished(ag.RunFinishedCancelledOutcome() if was_stopped else None)

    def _waiting(self, interrupts: list[ag.Interrupt]) -> Iterator[ag.BaseEvent]:
        yield from self.finished(ag.RunFinishedInterruptOutcome(interrupts=interrupts))

    def _said(self, text: str) -> Iterator[ag.BaseEvent]:
        if self._message is None:
            text = text.lstrip("\n")
            if not text:
                return
            self._message = self._parent = f"m_{uuid.uuid4().hex}"
            yield ag.TextMessageStartEvent(message_id=self._message, role="assistant")
        yield ag.TextMessageContentEvent(message_id=self._message, delta=text)

    def _silent(self) -> Iterator[ag.BaseEvent]:
        """Yields the end of the message and of the reading of the prompt."""
        yield from self._read()
        if self._message is not None:
            yield ag.TextMessageEndEvent(message_id=self._message)
            self._message = None

    def _reads(self, event: agent_events.PromptRead) -> Iterator[ag.BaseEvent]:
        if not self._reading:
            self._reading = True
            yield ag.StepStartedEvent(step_name=READING)
        value = {
            "tokens": event.done,
            "of": event.total,
            **({"loading": True} if event.loading else {}),
        }
        yield ag.CustomEvent(name="nodius.prompt_read", value=value)

    def _read(self) -> Iterator[ag.BaseEvent]:
        if self._reading:
            self._reading = False
            yield ag.StepFinishedEvent(step_name=READING)

    def _begun(self, call_id: str, name: str) -> Iterator[ag.BaseEvent]:
        if call_id not in self._open and call_id not in self._ended:
            self._open[call_id] = None
            yield ag.ToolCallStartEvent(
                tool_call_id=call_id, tool_call_name=name, parent_message_id=self._parent
            )

    def _written(self, call_id: str, arguments: Mapping[str, Any]) -> Iterator[ag.BaseEvent]:
        """Yields the arguments of a call that waits and was begun in this run."""
        if call_id in self._open and json_size(arguments, MAX_RESULT) is not None:
            yield ag.ToolCallArgsEvent(
                tool_call_id=call_id, delta=json.dumps(arguments, ensure_ascii=False)
            )

    def _closed(self, call_id: str) -> ag.ToolCallEndEvent:
        del self._open[call_id]
        self._ended.add(call_id)
        return ag.ToolCallEndEvent(tool_call_id=call_id)

    def _result(self, event: agent_events.ToolFinished) -> Iterator[ag.BaseEvent]:
        call_id = event.call_id
        yield from self._begun(call_id, event.name)
        if call_id in self._open:
            if event.arguments and call_id not in self._sent_before:
                yield ag.ToolCallArgsEvent(tool_call_id=call_id, delta=_as_json(event.arguments))
            yield self._closed(call_id)
        self._parent = None  # what is said next answers the result
        content = cut(event.result_text, MAX_RESULT)
        metadata = {"nodius": {"isError": True}} if event.is_error else None
        yield ag.ToolCallResultEvent(
            message_id=f"r_{uuid.uuid4().hex}",
            tool_call_id=call_id,
            content=content,
            role="tool",
            metadata=metadata,
        )

    def _usage(self) -> list[ag.TokenUsage] | None:
        if not self._used:
            return None
        tokens = tokens_document(self._used)
        return [
            ag.TokenUsage(
                input_tokens=tokens["promptTokens"],
                output_tokens=tokens["completionTokens"],
                total_tokens=tokens["totalTokens"],
                reasoning_tokens=sum(u.reasoning for u in self._used),
                cached_input_tokens=sum(u.cached for u in self._used),
                cache_write_input_tokens=sum(u.cache_written for u in self._used),
            )
        ]


def _as_json(written: str) -> str:
    """Returns arguments as they were written, or as one JSON text if they are not JSON or too
    long.
    """
    try:
        json.loads(written)
    except (ValueError, RecursionError):
        return json.dumps(cut(written, MAX_RESULT))
    return written if len(written) <= MAX_RESULT else json.dumps(cut(written, MAX_RESULT))


def encoded(event: ag.BaseEvent) -> str:
    """Returns an event as JSON, with the time at which it is sent."""
    sent = event.model_copy(update={"timestamp": time.time_ns() // 1_000_000})
    return sent.model_dump_json(by_alias=True)


def snapshot(history: Sequence[Any]) -> ag.MessagesSnapshotEvent:
    """Returns the latest messages of a stored conversation, without the notes of the service."""
    latest: list[ag.Message] = []
    room = MAX_MESSAGES
    messages = from_stored(raw for raw in history if not is_note(raw))
    for number, message in reversed(list(enumerate(messages))):
        shown = _shown(message, message.id or f"stored_{number}")
        if shown is None:
            continue
        room -= len(shown.model_dump_json())
        if room < 0:
            break
        latest.append(shown)
    while latest and isinstance(latest[-1], ag.ToolMessage):  # its call is left out
        latest.pop()
    return ag.MessagesSnapshotEvent(messages=latest[::-1])


def _shown(message: stored.Message, key: str) -> ag.Message | None:
    match message:
        case stored.UserMessage():
            return ag.UserMessage(id=key, content=cut(message.content, MAX_RESULT))
        case stored.ToolMessage():
            content = cut(message.content, MAX_RESULT)
            return ag.ToolMessage(id=key, content=content, tool_call_id=message.call_id)
        case stored.AssistantMessage():
            calls = [
                ag.ToolCall(
                    id=call.id,
                    function=ag.FunctionCall(
                        name=call.name, arguments=cut(call.arguments, MAX_RESULT)
                    ),
                )
                for call in message.tool_calls
            ]
            note = (message.not_in_graph or {}).get("note", "")
            text = "\n\n".join(part for part in (cut(message.content, MAX_RESULT), note) if part)
            return ag.AssistantMessage(id=key, content=text, tool_calls=calls or None)
        case _:
            return None
