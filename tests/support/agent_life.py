"""Conversations with agents on a database: an API of one's own, a clock set by hand,
everything else real.

Several `Server`s on one database are several servers; one that `dies_at` a write is killed there.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasources.base import Database, Record, RecordStore, RecordWrite
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import StoredThread, Thread, Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.chat_values import Locale, agent_part, store_values, values_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.deliveries import Delivery, LifeParts
from graphrag.agents.document_check import check_document
from graphrag.agents.errors import AgentNotFound
from graphrag.agents.life import AgentLife
from graphrag.llm.base import AssistantMessage, UserMessage
from tests.support.agents import EDITOR
from tests.support.clock import Clock
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpAnswer, RequestFailed
from tools.http.model import RequestLike
from tools.http.scope import ConversationValues
from tools.http.secret_values import Secrets
from tools.http.value_templates import TemplateFailed

BASE = "https://api.example.com"
LOCALE = Locale(language="en", timezone="UTC")
SECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request as the API saw it."""

    method: str
    path: str
    key: str
    body: Any
    params: Any


Answering = Callable[[Sent], "HttpAnswer | Exception"]


@dataclass
class Api:
    """Somebody's API: what it was sent, and what it answers by path (200 and null by default)."""

    sent: list[Sent] = field(default_factory=list[Sent])
    answers: dict[str, Answering | HttpAnswer | Exception] = field(
        default_factory=dict[str, "Answering | HttpAnswer | Exception"]
    )
    held: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    def of(self, path: str) -> list[Sent]:
        return [each for each in self.sent if each.path == path]

    async def take(self, sent: Sent) -> HttpAnswer:
        self.sent.append(sent)
        if (held := self.held.get(sent.path)) is not None:
            await held.wait()
        answer = self.answers.get(sent.path, HttpAnswer(status=200))
        if callable(answer):
            answer = answer(sent)
        if isinstance(answer, Exception):
            raise answer
        return HttpAnswer(status=answer.status, value=copy.deepcopy(answer.value))


class ApiExecutor(HttpExecutor):
    """Renders requests as the service does and hands them to an API in this process."""

    def __init__(self, api: Api, clock: Callable[[], int]) -> None:
        self.api = api
        self.now = clock
        self.secrets = Secrets({})

    async def request(
        self, request: RequestLike, values: ConversationValues, key: str, *, retries: int = 1
    ) -> HttpAnswer:
        scope = values.scope(self.now())
        assert request.url is not None
        try:
            path = request.url.rest.render(scope, insert="url")
            params = request.params.render(scope, drop_null=True)
            body = None if request.body is None else request.body.render(scope, drop_null=True)
        except TemplateFailed as exc:
            raise RequestFailed("missing_value", fact=exc.path) from exc
        await asyncio.sleep(0)
        sent = Sent(
            method=request.method, path=str(path), key=key, body=copy.deepcopy(body), params=params
        )
        return await self.api.take(sent)


class Killed(BaseException):
    """The process ends here."""


class DyingRecords:
    """Records of a process that is killed at its write of a number, before it or just
    after; 0: never.
    """

    def __init__(self, records: RecordStore, *, dies_at: int = 0, after: bool = False) -> None:
        self._records = records
        self.dies_at = dies_at
        self._after = after
        self.writes = 0
        self.is_dead = False
        self.notices = records.notices

    async def _write(self, write: Callable[[], Any]) -> Any:
        self.writes += 1
        is_last = self.writes == self.dies_at  # another may begin while this one is under way
        self.is_dead = self.is_dead or (is_last and not self._after)
        self._check()
        made = await write()
        self.is_dead = self.is_dead or is_last
        self._check()
        return made

    def _check(self) -> None:
        if self.is_dead:
            raise Killed

    async def get(self, kind: str, key: str) -> Record | None:
        self._check()
        return await self._records.get(kind, key)

    async def put(self, record: Record, *, expected_version: str | None) -> Record:
        return await self._write(
            lambda: self._records.put(record, expected_version=expected_version)
        )

    async def delete(self, kind: str, key: str, *, expected_version: str) -> None:
        await self._write(
            lambda: self._records.delete(kind, key, expected_version=expected_version)
        )

    async def write(self, writes: Sequence[RecordWrite]) -> list[Record | None]:
        return await self._write(lambda: self._records.write(writes))

    async def query(self, kind: str, where: Any = None, **more: Any) -> list[Record]:
        self._check()
        return await self._records.query(kind, where, **more)


def document(**changes: Any) -> dict[str, Any]:
    """Return an agent with a whole lifecycle."""
    return {
        "version": "2.0",
        "agent": {"id": "shop", "name": "Shop", "type": "shop"},
        "base_url": BASE,
        "session": {"mode": "inline", "instructions": "You sell. Today is {{today}}."},
        "lifecycle": {
            "on_start": {
                "url": "{{base_url}}/calls",
                "body": {
                    "agent": "{{agent.id}}",
                    "phone": "{{caller_phone}}",
                    "startedAt": "{{now_iso}}",
                },
                "store_in_ctx": {"call_id": "$.id"},
            },
            "on_no_action": {
                "condition": "not ctx.order_placed and ctx.had_conversation",
                "url": "{{base_url}}/messages",
                "body": {"callId": "{{ctx.call_id}}", "content": "{{transcript_summary}}"},
                "store_in_ctx": {"note_id": "$.id"},
            },
            "on_end": {
                "method": "PATCH",
                "url": "{{base_url}}/calls",
                "body": {
                    "id": "{{ctx.call_id}}",
                    "note": "{{ctx.note_id}}",
                    "outcome": "{{outcome}}",
                    "reason": "{{end_reason}}",
                    "seconds": "{{call_duration_sec}}",
                    "transcript": "{{transcript}}",
                },
            },
            "outcome_rules": [
                {"flag": "order_placed", "outcome": "ordered"},
                {"flag": "had_conversation", "outcome": "info_only"},
                {"flag": None, "outcome": "abandoned"},
            ],
        },
        "tools": {
            "order": {
                "type": "http",
                "method": "POST",
                "url": "{{base_url}}/orders",
                "body": {"callId": "{{ctx.call_id}}"},
                "on_success_flags": ["order_placed"],
            },
            "look": {"type": "http", "url": "{{base_url}}/stock"},
        },
        **changes,
    }


def compiled(raw: Mapping[str, Any]) -> CompiledAgent:
    checked = check_document(raw)
    assert checked.agent is not None, checked.errors
    return checked.agent


@dataclass
class Shop:
    """The agents of a workspace: one, until it is deleted."""

    agent: CompiledAgent | None
    executor_: HttpExecutor
    refusals: list[Any] = field(default_factory=list[Any])

    async def model_failed(self, agent_id: str, refusal: Any = None) -> None:
        self.refusals.append(refusal)

    async def compiled(self, agent_id: str, version: int) -> CompiledAgent:
        if self.agent is None:
            raise AgentNotFound(agent_id=agent_id)
        return self.agent

    def executor(self, agent: CompiledAgent) -> HttpExecutor:
        return self.executor_


@dataclass(kw_only=True)
class Server:
    """One server of the workspace."""

    records: DyingRecords
    threads: Threads
    clock: Clock
    api: Api
    shop: Shop
    life: AgentLife

    async def begin(self, **more: Any) -> StoredThread:
        assert self.shop.agent is not None
        new = self.threads.begin("", EDITOR, title="hello")
        return await self.life.beginnings.begin(self.shop.agent, 1, new, **more)

    async def say(
        self, stored: StoredThread, message: str, answer: str, **ctx: Any
    ) -> StoredThread:
        """Store a message, its answer and what the turn set in ctx."""
        thread = stored.thread
        assert self.shop.agent is not None
        values = values_of(self.shop.agent, thread, LOCALE)
        values.ctx.update(ctx)
        thread = store_values(thread, values, self.clock())
        messages = [
            *thread.messages,
            UserMessage(content=message),
            AssistantMessage(content=answer),
        ]
        return await self.threads.save(
            StoredThread(thread=thread, version=stored.version), messages
        )

    async def quiet(self) -> None:
        """Wait until nothing is being sent."""
        assert await self.life.deliveries.wait_until_sent(timeout_s=60)
        await asyncio.sleep(0)

    async def tick(self) -> None:
        """Do what a server does in the background for conversations."""
        await self.life.endings.end_idle()
        await self.life.deliveries.send_due()
        await self.quiet()

    async def part(self, stored: StoredThread | Thread) -> ThreadAgent:
        key = stored.thread.key if isinstance(stored, StoredThread) else stored.key
        return agent_part((await self.threads.get_of(key, "default")).thread)

    async def deliveries(self, call_id: str | None = None) -> dict[str, Delivery]:
        found = await self.life.deliveries.list(call_id=call_id)
        return {each.event: each for each in found}


def server_on(
    database: Database,
    api: Api,
    *,
    clock: Clock | None = None,
    agent: CompiledAgent | None = None,
    dies_at: int = 0,
    after: bool = False,
) -> Server:
    clock = clock or Clock()
    records = DyingRecords(database.records("default"), dies_at=dies_at, after=after)
    threads = Threads(records, clock=clock)
    shop = Shop(agent or compiled(document()), ApiExecutor(api, clock))
    leases = TurnLeases(records, clock=clock, look_s=0.01)
    life = AgentLife(
        LifeParts(
            records, threads, shop, workspace="default", locale=LOCALE, leases=leases, clock=clock
        )
    )
    return Server(records=records, threads=threads, clock=clock, api=api, shop=shop, life=life)
