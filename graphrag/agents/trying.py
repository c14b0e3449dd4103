"""Runs one HTTP tool of an agent for the author of its document: dry, or with its requests sent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agents.chat_values import Locale, about, first_values, language_of
from graphrag.agents.errors import AgentToolNotFound, AgentTryFailed
from graphrag.agents.manager import AgentManager
from tools.http.fetch import PreparedRequest, RequestFailed
from tools.http.scope import ConversationValues
from tools.http.tool_run import ToolOutcome


async def try_tool(
    manager: AgentManager,
    agent_id: str,
    name: str,
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    locale: Locale,
    *,
    version: int | None = None,
    sends: bool = False,
) -> dict[str, Any]:
    """Returns the requests with secrets masked; with `sends`, the tool's result. Stores nothing.

    `ctx`: values beside those of every conversation. `version` None: the current one.

    Raises: AgentNotFound, AgentToolNotFound; AgentTryFailed if no request can be made.
    """
    stored = await manager.agents.get(agent_id)
    agent = await manager.compiled(agent_id, version or stored.version)
    tool = agent.tools.get(name)
    if tool is None:
        raise AgentToolNotFound(agent_id=agent_id, tool=name)
    now = manager.agents.clock()
    named = about(agent, locale)
    executor = manager.executor(agent.agent_id)
    call_id = f"try:{secrets.token_hex(8)}"
    values = ConversationValues(
        agent=named,
        base_url=agent.base_url,
        call_id=call_id,
        timezone=named["timezone"],
        language=language_of(agent, locale),
        ctx={**first_values(ThreadAgent(agent_id=agent_id, version=1), now), **ctx},
        started_time=now,
    )
    if sends:
        return _sent(await executor.run(tool, args, values, call_id))
    try:
        return {"requests": [_shown(request) for request in executor.dry(tool, args, values)]}
    except RequestFailed as exc:
        raise AgentTryFailed(tool=name, reason=str(exc)) from exc


def _sent(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "ok": outcome.ok,
        "ms": outcome.ms,
        "result": outcome.value,
        "stored": list(outcome.stored),
        "flags": list(outcome.flags),
    } | ({} if outcome.status is None else {"status": outcome.status})


def _shown(request: PreparedRequest) -> dict[str, Any]:
    shown = {"method": request.method, "url": request.url, "headers": dict(request.headers)}
    return shown if request.body is None else {**shown, "body": orjson.loads(request.body)}
