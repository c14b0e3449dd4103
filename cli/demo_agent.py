"""The part of the `demo` command that chats with an agent of a document, and shows what its API got."""

from __future__ import annotations

import json
from contextlib import suppress
from socket import socket
from typing import Any

from cli import render
from cli.turn_display import TurnView
from graphrag.agent.events import TurnStarted
from graphrag.agents.chats import AgentChats
from graphrag.agents.demo_api import demo_api_on
from graphrag.agents.errors import AgentNotFound, AgentStateRefused
from graphrag.app.wiring import Services
from mock_data import load_json

DOCUMENT = "agents/helpdesk.json"
SENT_S = 5.0


async def chat_with_helpdesk(
    services: Services, chats: AgentChats, listening: socket, graph: str, question: str
) -> None:
    """Store and start the sample agent, ask it, end the conversation; then it is as before."""
    document: dict[str, Any] = load_json(DOCUMENT)
    document["agent"]["id"] = agent_id = "demo-helpdesk"
    document["base_url"] = f"http://127.0.0.1:{listening.getsockname()[1]}"
    person, view = services.local_person(), TurnView(services.settings.language)
    async with demo_api_on(listening) as api:
        await _forget(services, agent_id)
        await services.agents.apply(document, person)
        await services.agents.start(agent_id)
        try:
            render.line(document["chat"]["opening"])
            render.line(f"> {question}", "bold")
            await view.show(chats.run(None, graph, question, person, agent_id=agent_id))
            thread_id = next(event.thread_id for event in view.events if isinstance(event, TurnStarted))
            render.line("> /end", "bold")
            ended = await chats.end(thread_id, person)
            await services.life.deliveries.wait_until_sent([thread_id], timeout_s=SENT_S)
            for request in api.requests:
                body = json.dumps(request["body"], ensure_ascii=False)
                render.passage(f"its API got {request['method']} {request['path']} {body}")
            await services.threads.delete(ended.key, person)
        finally:
            await _forget(services, agent_id)


async def _forget(services: Services, agent_id: str) -> None:
    with suppress(AgentNotFound, AgentStateRefused):
        await services.agents.stop(agent_id)
        await services.agents.delete(agent_id)
