"""Drives an agent of the documents beside the repository: a scripted model, a
real API on loopback.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from datasources.mock import open_nba
from graphrag.agent.events import Event, ToolFinished, TurnStarted
from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agents.chat_values import http_sentence
from graphrag.llm.base import SystemMessage
from tests.support.agent_chats import ChatSetting, chats_on
from tests.support.agents import EDITOR, of, only
from tests.support.clock import Clock
from tests.support.data_files import OURS, PUBLISHED
from tests.support.loopback_api import LoopbackApi, loopback_api
from tests.support.scripted_provider import Says, ScriptedProvider, Step
from tools.http.addresses import AddressRules
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.secret_values import Secrets

NOW = 1736964000000
AT = "2025-01-15T18:00:00Z"
LATER = "2025-01-15T18:01:30Z"
PHONE = "+33612345678"


def declared(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": name,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
        },
    }


@dataclass(kw_only=True)
class Drive:
    """One conversation with an agent: what was sent, what came back."""

    agent_id: str
    setting: ChatSetting
    api: LoopbackApi
    model: ScriptedProvider
    clock: Clock
    thread_id: str = ""

    async def begin(
        self, message: str = "Bonjour", *steps: Step, caller: str | None = PHONE
    ) -> list[Event]:
        self.model.play(*steps)
        events = await self.setting.say(message, agent_id=self.agent_id, caller_phone=caller)
        self.thread_id = only(events, TurnStarted).thread_id
        await self.setting.all_sent(self.thread_id)
        return events

    async def tools(self, *calls: Any) -> list[Any]:
        """Let the model make calls in one turn, 90 s later; return what it got."""
        self.clock.now = NOW + 90_000
        self.model.play(Says(calls=calls), "Voilà.")
        events = await self.setting.say("Oui", self.thread_id)
        texts = [each.result_text for each in of(events, ToolFinished)]
        return [json.loads(text) if text.startswith(("{", "[")) else text for text in texts]

    async def end(self) -> ThreadAgent:
        """End the conversation and wait for what is owed."""
        await self.setting.life.endings.end_by_person(self.thread_id, EDITOR)
        await self.setting.all_sent(self.thread_id)
        return await self.setting.part(self.thread_id)

    def bodies(self, what: str) -> list[bytes]:
        return [each.body for each in self.api.of(what)]

    def prompt(self) -> str:
        return "\n".join(
            m.content for m in self.model.requests[0].messages if isinstance(m, SystemMessage)
        )


@asynccontextmanager
async def drive(
    name: str, answers: dict[str, Any], change: Callable[[dict[str, Any]], None] | None = None
) -> AsyncIterator[Drive]:
    """Yields a conversation with an agent of our documents, or else of the published ones."""
    file = next(
        path for at in (OURS, PUBLISHED) if (path := at / "agents" / f"{name}.json").is_file()
    )
    document = json.loads(file.read_text(encoding="utf-8"))
    if change is not None:
        change(document)
    clock = Clock(NOW)
    async with loopback_api() as api:
        document["base_url"] = api.url
        api.answers.update(answers)
        client = HttpClient(AddressRules(allow=(f"127.0.0.1:{api.port}",)))
        executor = HttpExecutor(client, Secrets({}), clock, http_sentence)
        try:
            async with ScriptedProvider() as model, open_nba("default") as database:
                agent_id = document["agent"]["id"]
                setting = chats_on(database, model, {agent_id: document}, executor, clock=clock)
                yield Drive(agent_id=agent_id, setting=setting, api=api, model=model, clock=clock)
        finally:
            await client.aclose()


def compact(**members: Any) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()
