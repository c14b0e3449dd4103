"""Resolves the session of a conversation: instructions, tools and first values, inline or fetched.

A response is data: its instructions are not templates, and its invalid parts are left out or
refused as in a document.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final, final

from pydantic import TypeAdapter, ValidationError

from graphrag.agents.chat_values import taken
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.declared_tools import checked_declarations
from graphrag.agents.errors import AgentSessionFailed
from graphrag.agents.session_fields import InlineSession, ResponseMapping
from graphrag.agents.voice_fields import CustomVoice, Voice
from tools.http.executor import HttpExecutor
from tools.http.fetch import RequestFailed
from tools.http.rendered_log import log_text
from tools.http.scope import ConversationValues, Scope
from tools.http.value_templates import TemplateFailed, ValueTemplate

log = logging.getLogger(__name__)

FETCHES: Final = 2
_VOICE: Final = TypeAdapter[Voice | CustomVoice](Voice | CustomVoice)
INSTRUCTIONS_CHARS: Final = 32_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSession:
    """What the model is given in one conversation. `response`: the whole answer,
    read as `session.*`.

    `declarations` None: those of the document. `voice` None: that of the document.
    """

    instructions: str
    declarations: list[dict[str, Any]] | None = None
    voice: Voice | CustomVoice | None = None
    response: Any = None
    ctx: dict[str, Any] = field(default_factory=dict[str, Any])


async def resolve_session(
    agent: CompiledAgent, values: ConversationValues, executor: HttpExecutor, now: int
) -> ResolvedSession:
    """Returns the session of a new conversation. `now`: ms since 1970. Raises:
    AgentSessionFailed.
    """
    plan = agent.document.session
    scope = values.scope(now)
    if isinstance(plan, InlineSession):
        return ResolvedSession(instructions=_rendered(agent, plan.instructions, scope, executor))
    for number in range(FETCHES):
        try:
            answer = await executor.request(
                plan, values, f"{values.call_id}:session:{number}", retries=0
            )
        except RequestFailed as exc:
            reason: str = exc.code
        else:
            reason = f"http_{answer.status}"
            if answer.ok:  # paths and schemas of strangers: not for the event loop
                answered = values.scope(now, response=answer.value)
                mapped = await asyncio.to_thread(
                    _mapped, agent, plan.response_mapping, answered, answer.value
                )
                if mapped is not None:
                    return mapped
                reason = "instructions"
        log.warning("session_not_fetched", extra={"agent_id": agent.agent_id, "reason": reason})
    if plan.fallback is None:
        raise AgentSessionFailed(agent_id=agent.agent_id)
    declarations = [each.model_dump(mode="json") for each in plan.fallback.tools]
    instructions = _rendered(agent, plan.fallback.instructions, scope, executor)
    return ResolvedSession(instructions=instructions, declarations=declarations)


def _rendered(
    agent: CompiledAgent, instructions: ValueTemplate, scope: Scope, executor: HttpExecutor
) -> str:
    try:
        text = str(instructions.render(scope, insert="text"))
    except TemplateFailed as exc:
        log.warning(
            "instructions_not_rendered", extra={"agent_id": agent.agent_id, "reason": exc.code}
        )
        raise AgentSessionFailed(agent_id=agent.agent_id) from exc
    log_text("session.instructions", text, executor.secrets, {"agent_id": agent.agent_id})
    return text


def _mapped(
    agent: CompiledAgent, mapping: ResponseMapping, scope: Scope, response: Any
) -> ResolvedSession | None:
    """Returns the session of a response; None without instructions."""
    instructions = mapping.instructions.first(response, scope)
    if not isinstance(instructions, str) or not 0 < len(instructions.strip()) <= INSTRUCTIONS_CHARS:
        return None
    return ResolvedSession(
        instructions=instructions,
        declarations=_declared(
            agent, mapping.tools.first(response, scope) if mapping.tools else None
        ),
        voice=_voice(agent, mapping.voice.first(response, scope) if mapping.voice else None),
        response=response,
        ctx=taken(mapping.ctx_init, response, scope),
    )


def stored_voice(agent: CompiledAgent, response: Any, scope: Scope) -> Voice | CustomVoice | None:
    """Returns the voice of a stored response; None without one."""
    plan = agent.document.session
    if isinstance(plan, InlineSession) or response is None or plan.response_mapping.voice is None:
        return None
    return _voice(agent, plan.response_mapping.voice.first(response, scope))


def _voice(agent: CompiledAgent, raw: Any) -> Voice | CustomVoice | None:
    """Returns the voice of a response; None if it names no known one."""
    if raw is None:
        return None
    try:
        return _VOICE.validate_python(raw)
    except ValidationError:
        log.warning("voice_unknown", extra={"agent_id": agent.agent_id})
        return None


def _declared(agent: CompiledAgent, raw: Any) -> list[dict[str, Any]]:
    """Returns the valid declarations of a response that have a handler."""
    kept, dropped = checked_declarations(raw, agent.document.tools.keys())
    for name, reason in dropped:  # a name may be anything that the answer holds
        facts = {"agent_id": agent.agent_id, "tool": name if name in agent.document.tools else ""}
        log.warning("tool_left_out", extra=facts | {"reason": reason[:80]})
    for name in sorted(agent.tools.keys() - {each.name for each in kept}):
        log.info("tool_undeclared", extra={"agent_id": agent.agent_id, "tool": name})
    return [each.model_dump(mode="json") for each in kept]
