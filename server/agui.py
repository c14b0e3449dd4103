"""AG-UI: one run of the agent about a graph, as server-sent events. Source: AG-UI 1.0.

Decision: the key of the stored conversation is a hash of the person, the workspace, the graph and
the client's `threadId`. So nobody can name another person's conversation, and no index is stored.
The stored messages are the history; of the client's `messages` only a new one of the person is
read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Any, cast

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    RunFinishedCancelledOutcome,
)
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import Field, field_validator

from datasources.base import GraphDataSource
from graphrag.agent.events import ActionApplied, Event, PendingQuestion
from graphrag.agent.thread_store import Thread, ThreadBusy, ThreadNotFound
from graphrag.i18n import Language, text
from graphrag.workers import run_limited
from server.agui_resumption import Resumption
from server.approval_documents import review_link
from server.bodies import MAX_MESSAGE, Id, text_of_parts
from server.channels.agui_events import RunMapping, encoded, snapshot
from server.channels.agui_interrupts import ProtocolForm, ResumeAnswer, question_id, response_of
from server.channels.agui_state import applied_state, first_state, graph_summary
from server.error_responses import error_response, note
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.errors import TurnStopped
from server.event_stream import EventStream, frame
from server.http_turns import metered
from server.requests import InLanguage, Workspaces, state_of
from server.rest_ai import standing
from server.workspaces import WorkspaceContext
from tools.session_tools import QUESTIONS

router = APIRouter(prefix="/api/agui", tags=["conversations"], responses={**ERRORS, **MODEL_ERRORS})

MAX_MESSAGES = 10_000
MAX_ANSWERS = 100
FEATURES = frozenset({QUESTIONS})
_EVENTS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


class ConversationMessage(ProtocolForm):
    """A message of a client. `content` of a person's message: a text, or parts that are each a
    text.
    """

    id: Id
    role: Annotated[str, Field(max_length=40)]
    content: Any = None


class RunRequest(ProtocolForm):
    """AG-UI's RunAgentInput. A new message of the person at the end of `messages` is answered;
    `resume` answers the interrupts of the run before. Without either, the run reports the state of
    the conversation.

    `tools` and `context` of the client are ignored; an event `nodius.ignored` names them.
    """

    thread_id: Id
    run_id: Id
    messages: Annotated[list[ConversationMessage], Field(max_length=MAX_MESSAGES)] = Field(
        default_factory=list[ConversationMessage]
    )
    tools: list[Any] | None = None
    context: list[Any] | None = None
    resume: Annotated[list[ResumeAnswer], Field(max_length=MAX_ANSWERS)] | None = None

    @field_validator("resume")
    @classmethod
    def _once_each(cls, resume: list[ResumeAnswer] | None) -> list[ResumeAnswer] | None:
        if len({one.interrupt_id for one in resume or ()}) < len(resume or ()):
            raise ValueError("an interrupt is answered twice")
        return resume

    @field_validator("messages")
    @classmethod
    def _words(cls, messages: list[ConversationMessage]) -> list[ConversationMessage]:
        last = _last_said(messages)
        if last is not None and not 0 < len(text_of_parts(last.content).strip()) <= MAX_MESSAGE:
            raise ValueError(
                f"the last message of the person has no text, or more than {MAX_MESSAGE} characters"
            )
        return messages

    def new_message(self, thread: Thread | None) -> ConversationMessage | None:
        """Returns the message that the conversation does not contain yet."""
        last = _last_said(self.messages)
        history: list[Any] = thread.conversation_history if thread else []
        known_ids = {
            cast(dict[str, Any], one).get("id") for one in history if isinstance(one, dict)
        }
        return None if last is None or last.id in known_ids else last

    @property
    def ignored(self) -> list[str]:
        return [name for name, given in (("tools", self.tools), ("context", self.context)) if given]


def _last_said(messages: Sequence[ConversationMessage]) -> ConversationMessage | None:
    """Returns the person's message that has no answer yet."""
    for message in reversed(messages):
        if message.role == "user":
            return message
        if message.role in ("assistant", "tool"):
            return None
    return None


def thread_key(place: WorkspaceContext, graph_key: str, thread_id: str) -> str:
    """Returns the key of the stored conversation of a client's thread."""
    named = [place.person.workspace, place.person.user_id, graph_key, thread_id]
    return f"agui_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:40]}"


@router.post("/{graph_key}", response_class=StreamingResponse, responses=_EVENTS)
async def run_agent(
    request: Request, workspaces: Workspaces, language: InLanguage, graph_key: Id, body: RunRequest
) -> EventStream:
    """Runs the agent about a graph, as AG-UI describes it. The last event says what the run waits
    for.
    """
    place = await workspaces.through("ag-ui").of_graph(graph_key)
    key = thread_key(place, graph_key, body.thread_id)
    thread = None
    with suppress(ThreadNotFound):
        thread = (await place.services.threads.get(key, place.person)).thread
        thread = await place.effective_status(thread)
    run = AgentRun(request, place, graph_key, language, body, key, thread)
    if run.asks_model:
        state_of(request).limits.messages.spend(place.person.user_id)
    return EventStream(run.frames(), failed=run.failed)


class AgentRun:
    """One run: its request, and the conversation as it was before."""

    def __init__(
        self,
        request: Request,
        place: WorkspaceContext,
        graph_key: str,
        language: Language,
        asked: RunRequest,
        key: str,
        thread: Thread | None,
    ) -> None:
        self._request = request
        self._place = place
        self._graph_key = graph_key
        self._language: Language = language
        self._asked = asked
        self._key = key
        self._thread = thread
        self._new = asked.new_message(thread)
        self._resumption = Resumption(place, asked.resume or (), language)
        self._mapping = RunMapping(
            asked.thread_id,
            asked.run_id,
            language,
            partial(review_link, place.services.settings),
            _sent_before(thread),
            thread.turn.number if thread else 0,
        )

    @property
    def asks_model(self) -> bool:
        return bool(self._asked.resume) or self._new is not None or self._is_retry

    @property
    def _is_retry(self) -> bool:
        """Whether the message of a failed turn is sent again."""
        failed = self._thread is not None and self._thread.turn.status == "failed"
        return failed and _last_said(self._asked.messages) is not None

    async def frames(self) -> AsyncGenerator[str]:
        async with aclosing(self._events()) as events:
            async for event in events:
                yield frame(encoded(event))

    def failed(self, exc: Exception) -> Iterator[str]:
        """Yields the last frames of a run that failed: the ends of what is open, and the error."""
        request_id = str(getattr(self._request.state, "request_id", ""))
        note(exc, request_id)
        answer = error_response(exc, self._language, request_id)
        for event in self._mapping.failed(answer.code, answer.message):
            yield frame(encoded(event))

    async def _events(self) -> AsyncGenerator[BaseEvent]:
        """Yields the events of the run. Raises: errors, which `failed` turns into its
        last events.
        """
        yield self._mapping.started()
        graph = await _summary(self._place.services.source, self._graph_key)
        yield first_state(graph)
        if ignored := self._asked.ignored:
            yield CustomEvent(name="nodius.ignored", value={"fields": ignored})
        is_over = self._thread is not None and await self._resumption.is_over(self._thread)
        going = self._turn() if self.asks_model and not is_over else self._standing()
        async with aclosing(going) as events:
            async for event in events:
                yield event

    async def _turn(self) -> AsyncGenerator[BaseEvent]:
        is_first = True
        async with aclosing(metered(state_of(self._request), self._agent_events())) as turn:
            async for event in turn:
                for shown in self._mapping.events(event):
                    yield shown
                if isinstance(event, ActionApplied):
                    graph = await _summary(self._place.services.source, self._graph_key)
                    yield applied_state(event.approval, graph, self._language)
                if is_first:
                    is_first = False
                    for refused in self._resumption.refused():
                        yield CustomEvent(name="nodius.refused", value=refused)

    def _agent_events(self) -> AsyncGenerator[Event]:
        agent = self._place.agent
        person = self._place.person
        shown: dict[str, Any] = {
            "language": self._language,
            "features": FEATURES,
            "interactive": True,
        }
        message = self._new
        given = self._asked.resume
        if given and self._thread is None:
            raise ThreadNotFound(thread_id=self._asked.thread_id)
        if given and self._thread is not None:
            answered = self._question_answer(self._thread, given)
            if answered is None:
                return agent.resume(self._key, person, answer=self._resumption.answer, **shown)
            self._resumption.check_alone(answered)
            if answered.status == "resolved":
                return agent.resume(self._key, person, response=response_of(answered), **shown)
            question = text("agui_no_answer", self._language)
            message_key = None
        elif message is None:
            return agent.resume(self._key, person, **shown)
        else:
            question = text_of_parts(message.content)
            message_key = message.id
        key = self._key if self._thread is not None else None
        shown |= {"new_key": self._key, "message_key": message_key}
        return agent.run(key, self._graph_key, question, person, **shown)

    def _question_answer(
        self, thread: Thread, given: Sequence[ResumeAnswer]
    ) -> ResumeAnswer | None:
        """Returns the answer to the question that the conversation waits for."""
        asked = PendingQuestion.of(thread)
        wanted = None if asked is None else question_id(asked)
        return next((one for one in given if one.interrupt_id == wanted), None)

    async def _standing(self) -> AsyncGenerator[BaseEvent]:
        """Yields the messages so far and what the conversation waits for, without asking
        a model.
        """
        thread = self._thread
        if thread is None:
            for event in self._mapping.finished():
                yield event
            return
        yield await run_limited(snapshot, thread.conversation_history)
        waits = await standing(self._place, thread)
        if waits is not None:
            ended = self._mapping.events(waits)
        elif thread.turn.status == "running":
            raise ThreadBusy(thread_id=self._asked.thread_id)
        elif thread.turn.status == "failed":
            raise TurnStopped
        else:
            was_stopped = thread.turn.status == "stopped"
            ended = self._mapping.finished(RunFinishedCancelledOutcome() if was_stopped else None)
        for event in ended:
            yield event


def _sent_before(thread: Thread | None) -> set[str]:
    """Returns the calls whose arguments a client received before, with what the conversation waits
    for.
    """
    if thread is None:
        return set()
    asked = PendingQuestion.of(thread)
    return {*thread.turn.open, *(() if asked is None else (asked.call_id,))}


async def _summary(source: GraphDataSource, graph_key: str) -> dict[str, Any]:
    """Raises: GraphNotFound, SourceError."""
    return graph_summary(await source.get_graph(graph_key), await source.get_stats(graph_key))
