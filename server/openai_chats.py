"""Conversations with clients of the OpenAI API: which of ours a request goes on with, and its next turn.

Decision: a client of chat completions sends all that was said each time and names no conversation. What was
said up to an answer of ours is hashed with the person and the model, and a record under that hash names our
conversation, so nobody can name one of somebody else. Where no record fits (the history was edited, or is of
another service) a new conversation begins, and its first message reports what was said before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from datasources.base import Record, RecordStore, RecordWrite
from datasources.errors import GraphNotFound, RecordConflict
from graphrag.agent.events import Completed, Event, Failed, ProposalPending, Token, TurnStarted, UsageReported
from graphrag.agent.thread_store import ThreadNotFound
from graphrag.agents.errors import AgentNotFound
from graphrag.approvals import Approval, title
from graphrag.i18n import Language, text
from server.chat_answer import metered
from server.errors import ModelNotFound, TurnBroken
from server.openai_forms import GivenMessage, dialogue, question, without_links
from server.review_links import review_link
from server.server_state import ServerState
from server.workspaces import WorkspaceContext, WorkspaceResolver

KIND = "openai_chat"
ALL_GRAPHS, GRAPH, AGENT = "nodius", "graph:", "agent:"
RESPONSE = "resp_"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """What a model's name stands for."""

    name: str
    place: WorkspaceContext
    graph_key: str = ""
    agent_id: str | None = None


async def find_model(workspaces: WorkspaceResolver, name: str) -> AskedModel:
    """Return what a name stands for. Raises: ModelNotFound, WorkspaceUnclear, SourceError."""
    with suppress(GraphNotFound, AgentNotFound):
        if name == ALL_GRAPHS:
            return AskedModel(name=name, place=await workspaces.one())
        if name.startswith(GRAPH):
            place, graph = await workspaces.of_graph(name.removeprefix(GRAPH))
            return AskedModel(name=name, place=place, graph_key=graph.key)
        if name.startswith(AGENT):
            place, agent = await workspaces.of_agent(name.removeprefix(AGENT))
            graph_key = next(iter(agent.graphs), "")
            return AskedModel(name=name, place=place, graph_key=graph_key, agent_id=agent.agent_id)
    raise ModelNotFound(model=name)


@dataclass(slots=True, kw_only=True)
class OpenAITurn:
    """One question and its answer. Units: tokens."""

    asked: AskedModel
    messages: Sequence[GivenMessage]
    language: Language
    thread_id: str | None = None
    is_new: bool = True
    prompt: int = 0
    completion: int = 0
    written: list[str] = field(default_factory=list[str])
    _record: Record | None = None

    @property
    def response_id(self) -> str:
        """The name of the answer, by which a client goes on with its conversation."""
        return f"{RESPONSE}{self.thread_id}"

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self.written)

    async def find_thread(self) -> None:
        """Find the conversation that the client goes on with. Raises: SourceError."""
        before = dialogue(self.messages[:-1])
        if not before or before[-1][0] != "assistant":
            return
        record = await self._records.get(KIND, self._hash(before))
        if record is not None:
            with suppress(ThreadNotFound):
                await self._take(str(record.data.get("threadId")))
                self._record = record

    async def go_on(self, response_id: str | None) -> None:
        """Take up the conversation of an answer. Raises: ThreadNotFound for none of this person's."""
        if response_id is not None:
            await self._take(response_id.removeprefix(RESPONSE))

    async def _take(self, thread_id: str) -> None:
        threads = self.asked.place.services.threads
        await threads.get(thread_id, self.asked.place.person)
        self.thread_id, self.is_new = thread_id, False

    async def pieces(self, state: ServerState) -> AsyncGenerator[str]:
        """Yield the answer as it is written; at the end, proposals with their links.

        Raises: TurnBroken, and what `Agent.run` raises before its first event.
        """
        async with aclosing(metered(state, self._events())) as events:
            async for event in events:
                for piece in self._pieces(event):
                    self.written.append(piece)
                    yield piece
        await self._remember()

    async def _remember(self) -> None:
        """Note which conversation this answer is of, in place of the answer before it."""
        said = [*dialogue(self.messages), ("assistant", self.text.strip())]
        time = self.asked.place.services.threads.clock()
        data = {"threadId": self.thread_id, "time": time}
        writes = [RecordWrite(kind=KIND, key=self._hash(said), data=data, expected_version=None)]
        if (old := self._record) is not None:
            writes.append(RecordWrite(kind=KIND, key=old.key, data=None, expected_version=old.version))
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
            self.thread_id,
            asked.graph_key,
            question(self.messages, with_history=self.is_new),
            asked.place.person,
            agent_id=asked.agent_id,
            language=self.language,
            interactive=False,
        )

    def _pieces(self, event: Event) -> list[str]:
        match event:
            case TurnStarted():
                self.thread_id = event.thread_id
                return [""]
            case Token():
                return [without_links(event.text)]
            case UsageReported():
                self.prompt += event.prompt
                self.completion += event.completion
                return []
            case ProposalPending():
                return [self._proposed(approval) for approval in event.approvals]
            case Completed() if not self.text and event.text:
                return [without_links(event.text)]
            case Failed():
                raise TurnBroken(thread_id=event.thread_id, fault=event.fault)
            case _:
                return []

    def _proposed(self, approval: Approval) -> str:
        link = review_link(self.asked.place.services.settings, approval)
        said = text(
            "mcp_proposed", self.language, title=title(approval, self.language), id=approval.id, link=link
        )
        return f"\n\n{said}" if self.text else said
