"""Runs one HTTP tool of an agent for the author of its document: dry, or with its requests sent.

Requests are sent by the executor of every tool call: with the same rules for addresses, limits
and log events. Nothing is stored.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agents.chat_values import Locale, about, first_values, language_of
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.errors import AgentToolNotFound, AgentTryFailed
from graphrag.agents.manager import AgentManager
from tools.compact import cut
from tools.http.executor import HttpExecutor
from tools.http.fetch import PreparedRequest, RequestFailed
from tools.http.filters import compact
from tools.http.scope import ConversationValues
from tools.http.tool import RESULT_CHARS
from tools.http.tool_run import Exchange, ToolOutcome

log = logging.getLogger(__name__)


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
    """Returns the requests with secrets masked; with `sends`, also their answers and the result.

    `ctx`: values beside those of every conversation. `version` None: the current one.

    Raises: AgentNotFound, AgentToolNotFound; AgentTryFailed if no request can be made.
    """
    stored = await manager.agents.get(agent_id)
    agent = await manager.compiled(agent_id, version or stored.version)
    values = _values(agent, ctx, locale, manager.agents.clock())
    executor = manager.executor(agent.agent_id)
    return await _tried(executor, agent, name, args, values, sends=sends)


async def try_document(
    manager: AgentManager,
    source: str | Mapping[str, Any],
    name: str,
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    locale: Locale,
    *,
    sends: bool = False,
) -> dict[str, Any]:
    """As `try_tool`, for a document that is not stored.

    Raises: InvalidAgent, AgentToolNotFound; AgentTryFailed if no request can be made.
    """
    agent = await manager.compiled_source(source)
    values = _values(agent, ctx, locale, manager.agents.clock())
    executor = manager.new_executor()
    try:
        return await _tried(executor, agent, name, args, values, sends=sends)
    finally:
        await executor.aclose()


def _values(
    agent: CompiledAgent, ctx: Mapping[str, Any], locale: Locale, now: int
) -> ConversationValues:
    """Returns the values of a conversation that begins now. `now`: milliseconds since 1970."""
    named = about(agent, locale)
    return ConversationValues(
        agent=named,
        base_url=agent.base_url,
        call_id=f"try:{secrets.token_hex(8)}",
        timezone=named["timezone"],
        language=language_of(agent, locale),
        ctx={**first_values(ThreadAgent(agent_id=agent.agent_id, version=1), now), **ctx},
        started_time=now,
    )


async def _tried(
    executor: HttpExecutor,
    agent: CompiledAgent,
    name: str,
    args: Mapping[str, Any],
    values: ConversationValues,
    *,
    sends: bool,
) -> dict[str, Any]:
    tool = agent.tools.get(name)
    if tool is None:
        raise AgentToolNotFound(agent_id=agent.agent_id, tool=name)
    facts = {"agent_id": agent.agent_id, "tool": name, "call_id": values.call_id, "sent": sends}
    log.info("tool_tried", extra=facts)
    if sends:
        exchanges: list[Exchange] = []
        outcome = await executor.run(tool, args, values, values.call_id, exchanges=exchanges)
        return {"requests": list(map(_exchanged, exchanges)), **_result(outcome)}
    try:
        return {"requests": [_shown(request) for request in executor.dry(tool, args, values)]}
    except RequestFailed as exc:
        raise AgentTryFailed(tool=name, reason=str(exc)) from exc


def _result(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "ok": outcome.ok,
        "ms": outcome.ms,
        "result": outcome.value,
        "stored": list(outcome.stored),
        "flags": list(outcome.flags),
    } | ({} if outcome.status is None else {"status": outcome.status})


def _exchanged(exchange: Exchange) -> dict[str, Any]:
    """Returns a request with its answer as text."""
    shown = {**_shown(exchange.request), "ms": exchange.ms}
    answer = exchange.answer
    if answer is None:
        return {**shown, "code": exchange.code} if exchange.code else shown
    text = cut(compact(answer.value), RESULT_CHARS)
    return {**shown, "status": answer.status, "answer": text}


def _shown(request: PreparedRequest) -> dict[str, Any]:
    shown = {"method": request.method, "url": request.url, "headers": dict(request.headers)}
    return shown if request.body is None else {**shown, "body": orjson.loads(request.body)}
