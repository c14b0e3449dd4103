"""The OpenAI-compatible API: `/v1/models`, `/v1/chat/completions`, `/v1/responses`.

A graph or an agent is a model. Its answers may propose changes: a proposal is text with the link
where a person decides it. No message of a client decides a proposal.

Decision: a client of chat completions sends all messages each time and names no conversation. The
messages up to an answer of this service are hashed with the person and the model, and a record
under that hash names the stored conversation, so nobody can name another person's. If no record
fits (the history was edited, or is of another service) a new conversation starts, and its first
message reports the messages before.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from starlette.responses import Response as HttpResponse

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import GraphNotFound, RecordConflict
from graphrag.agent.events import (
    Event,
)
from graphrag.agent.thread_store import ThreadNotFound
from graphrag.agents.errors import AgentNotFound
from graphrag.i18n import Language
from server.approval_documents import review_link
from server.channels.openai_answers import (
    AnswerMapping,
    ChatForm,
    GivenMessage,
    ResponsesForm,
    dialogue,
    question,
    response,
    whole_answer,
)
from server.channels.openai_streams import ChatChunks, ResponseEvents
from server.client_tasks import ClientTask, task_of
from server.error_responses import error_response, note
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.errors import ModelNotFound
from server.event_stream import EventStream, frame
from server.http_turns import metered, until_gone
from server.requests import InLanguage, Workspaces, state_of
from server.workspaces import WorkspaceContext, WorkspaceResolver

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)

MAX_MODELS = 1_000
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
_PROGRAM = re.compile(r"[^/\s]{1,60}")


@router.get("/models")
async def models(workspaces: Workspaces) -> JSONResponse:
    """Lists the models: all graphs together, each graph, and each agent that answers in chats."""
    listed = [_model(ALL_GRAPHS, 0, "nodius")] if len(workspaces.names) == 1 else []
    for place in await workspaces.all():
        owner = place.person.workspace
        graphs = await place.services.source.list_graphs()
        listed += [_model(f"{GRAPH}{graph.key}", graph.created_time, owner) for graph in graphs]
        agents = await place.services.agents.list()
        listed += [
            _model(f"{AGENT}{agent.id}", agent.created_time, owner)
            for agent in agents
            if "chat" in agent.channels
        ]
    return JSONResponse({"object": "list", "data": listed[:MAX_MODELS]})


@router.get("/models/{model}")
async def one_model(workspaces: Workspaces, model: str) -> JSONResponse:
    """Returns one model. Raises: ModelNotFound."""
    asked = await find_model(workspaces, model)
    return JSONResponse(_model(asked.name, 0, asked.place.person.workspace))


def _model(name: str, created_ms: int, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created_ms // 1000, "owned_by": owner}


@router.post("/chat/completions", responses={**MODEL_ERRORS, **_STREAM})
async def chat_completions(
    request: Request, workspaces: Workspaces, language: InLanguage, body: ChatForm
) -> HttpResponse:
    """Answers the last message, as the chat completions of OpenAI; streamed with `stream`."""
    asked = await find_model(_coming(request, workspaces), body.model)
    turn = _turn(asked, body, language)
    if isinstance(turn, OpenAITurn):
        await turn.find_thread()
    head = {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "created": int(time.time()),
        "model": body.model,
    }
    if not body.stream:
        await _answered(request, turn)
        return JSONResponse(whole_answer(head, turn.text, turn.usage))
    has_usage = body.stream_options is not None and body.stream_options.include_usage
    return await _streamed(
        _chunk_frames(request, turn, ChatChunks(head), has_usage=has_usage),
        lambda exc: [_frame({"error": _fault(request, exc, language)})],
    )


@router.post("/responses", responses={**MODEL_ERRORS, **_STREAM})
async def responses(
    request: Request, workspaces: Workspaces, language: InLanguage, body: ResponsesForm
) -> HttpResponse:
    """Answers as the responses API of OpenAI, as far as chats need it.

    `previous_response_id` continues the conversation of an answer, from its current state.
    """
    asked = await find_model(_coming(request, workspaces), body.model)
    turn = _turn(asked, body, language)
    if isinstance(turn, OpenAITurn):
        await turn.go_on(body.previous_response_id)
    created = int(time.time())
    if not body.stream:
        await _answered(request, turn)
        used = turn.usage
        return JSONResponse(response(body, turn.response_id, created, turn.text, used))
    events = ResponseEvents(body, created)

    def failed(exc: Exception) -> list[str]:
        fault = _fault(request, exc, language)
        return [_named_frame(events.failed(fault["code"], fault["message"]))]

    return await _streamed(_response_frames(request, turn, events), failed)


def _turn(
    asked: AskedModel, body: ChatForm | ResponsesForm, language: Language
) -> OpenAITurn | ClientTask:
    """Returns the turn that answers: of a conversation, or of a task of the program itself."""
    if (task := task_of(body.messages)) is not None:
        return ClientTask(place=asked.place, messages=body.messages, task=task)
    link = partial(review_link, asked.place.services.settings)
    answer = AnswerMapping(language, link, is_streamed=body.stream)
    return OpenAITurn(asked=asked, messages=body.messages, language=language, answer=answer)


def _coming(request: Request, workspaces: WorkspaceResolver) -> WorkspaceResolver:
    """Returns the resolver for the caller through the program that its header or their
    key names.
    """
    named = _PROGRAM.match(request.headers.get("user-agent", ""))
    return workspaces.through("openai", named[0] if named else "")


async def _answered(request: Request, turn: OpenAITurn | ClientTask) -> None:
    """Writes an answer that is not streamed. Raises: TurnBroken, TurnStopped, as `Agent.run`."""

    async def write() -> None:
        async with aclosing(turn.pieces(request)) as pieces:
            async for _ in pieces:
                pass

    await until_gone(request, write())


async def _streamed(
    frames: AsyncGenerator[str], failed: Callable[[Exception], Iterable[str]]
) -> EventStream:
    """Returns an answer that is sent while it is written. Errors before its start are raised."""
    return EventStream(frames, failed=failed, first=await anext(frames))


async def _chunk_frames(
    request: Request, turn: OpenAITurn | ClientTask, chunks: ChatChunks, *, has_usage: bool
) -> AsyncGenerator[str]:
    is_first = True
    async with aclosing(turn.pieces(request)) as pieces:
        async for piece in pieces:
            if is_first:
                yield _frame(chunks.begin())
            if piece:
                yield _frame(chunks.piece(piece))
            is_first = False
    for document in chunks.end(turn.usage if has_usage else None):
        yield _frame(document)
    yield frame("[DONE]")


async def _response_frames(
    request: Request, turn: OpenAITurn | ClientTask, events: ResponseEvents
) -> AsyncGenerator[str]:
    is_first = True
    async with aclosing(turn.pieces(request)) as pieces:
        async for piece in pieces:
            if is_first:
                for document in events.begin(turn.response_id):
                    yield _named_frame(document)
            if piece:
                yield _named_frame(events.piece(turn.response_id, piece))
            is_first = False
    for document in events.end(turn.response_id, turn.text, turn.usage):
        yield _named_frame(document)


def _named_frame(document: Mapping[str, Any]) -> str:
    return f"event: {document['type']}\n{_frame(document)}"


def _frame(document: Mapping[str, Any]) -> str:
    return frame(json.dumps(document, ensure_ascii=False))


def _fault(request: Request, exc: Exception, language: Language) -> dict[str, Any]:
    """Returns the error of an answer that has started, for the client, and logs the rest."""
    request_id = str(getattr(request.state, "request_id", ""))
    note(exc, request_id)
    return error_response(exc, language, request_id).body(request_id, as_openai=True)["error"]


KIND = "openai_chat"
ALL_GRAPHS, GRAPH, AGENT = "nodius", "graph:", "agent:"
RESPONSE = "resp_"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """The graph, agent or workspace that the name of a model stands for."""

    name: str
    place: WorkspaceContext
    graph_key: str = ""
    agent_id: str | None = None


async def find_model(workspaces: WorkspaceResolver, name: str) -> AskedModel:
    """Returns the model of a name. Raises: ModelNotFound, WorkspaceUnclear, SourceError."""
    with suppress(GraphNotFound, AgentNotFound):
        if name == ALL_GRAPHS:
            return AskedModel(name=name, place=await workspaces.one())
        if name.startswith(GRAPH):
            place = await workspaces.of_graph(name.removeprefix(GRAPH))
            return AskedModel(name=name, place=place, graph_key=place.graph.key)
        if name.startswith(AGENT):
            place, agent = await workspaces.of_agent(name.removeprefix(AGENT))
            graph_key = next(iter(agent.graphs), "")
            return AskedModel(name=name, place=place, graph_key=graph_key, agent_id=agent.agent_id)
    raise ModelNotFound(model=name)


@dataclass(slots=True, kw_only=True)
class OpenAITurn:
    """One question and its answer."""

    asked: AskedModel
    messages: Sequence[GivenMessage]
    language: Language
    answer: AnswerMapping
    is_new: bool = True
    _record: Record | None = None

    @property
    def response_id(self) -> str:
        """The id of the answer, with which a client continues its conversation."""
        return f"{RESPONSE}{self.answer.thread_id}"

    @property
    def text(self) -> str:
        """The answer so far."""
        return self.answer.text

    @property
    def usage(self) -> dict[str, int]:
        """The tokens so far."""
        return self.answer.usage

    async def find_thread(self) -> None:
        """Finds the conversation that the client continues. Raises: SourceError."""
        before = dialogue(self.messages[:-1])
        if not before or before[-1][0] != "assistant":
            return
        record = await self._records.get(KIND, self._hash(before))
        if record is not None:
            with suppress(ThreadNotFound):
                await self._take(str(record.data.get("threadId")))
                self._record = record

    async def go_on(self, response_id: str | None) -> None:
        """Continues the conversation of an answer. Raises: ThreadNotFound if this person has no
        such one.
        """
        if response_id is not None:
            await self._take(response_id.removeprefix(RESPONSE))

    async def _take(self, thread_id: str) -> None:
        threads = self.asked.place.services.threads
        await threads.get(thread_id, self.asked.place.person)
        self.answer.continue_thread(thread_id)
        self.is_new = False

    async def pieces(self, request: Request) -> AsyncGenerator[str]:
        """Yields the answer while it is written; at the end, proposals with their links.

        Raises: TooManyRequests, TurnBroken, and errors of `Agent.run` before its first event.
        """
        state = state_of(request)
        state.limits.messages.spend(self.asked.place.person.user_id)
        async with aclosing(metered(state, self._events())) as events:
            async for event in events:
                for piece in self.answer.pieces(event):
                    yield piece
        await self._remember()

    async def _remember(self) -> None:
        """Stores which conversation this answer belongs to, in place of the answer before it."""
        messages = [*dialogue(self.messages), ("assistant", self.text.strip())]
        time = self.asked.place.services.threads.clock()
        data = {"threadId": self.answer.thread_id, "time": time}
        writes = [
            RecordWrite(kind=KIND, key=self._hash(messages), data=data, expected_version=None)
        ]
        if (old := self._record) is not None:
            writes.append(
                RecordWrite(kind=KIND, key=old.key, data=None, expected_version=old.version)
            )
        with suppress(RecordConflict):  # the same was said twice: either conversation will do
            await self._records.write(writes)

    @property
    def _records(self) -> RecordStore:
        services = self.asked.place.services
        return services.database.records(self.asked.place.person.workspace)

    def _hash(self, said: Sequence[tuple[str, str]]) -> str:
        person = self.asked.place.person
        named = [person.workspace, person.user_id, self.asked.name, said]
        return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:40]

    def _events(self) -> AsyncGenerator[Event]:
        asked = self.asked
        return asked.place.agent.run(
            self.answer.thread_id,
            asked.graph_key,
            question(self.messages, with_history=self.is_new),
            asked.place.person,
            agent_id=asked.agent_id,
            language=self.language,
            interactive=False,
        )
