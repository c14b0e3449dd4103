"""The values of a stored conversation with an agent, as the templates of its document read them.

From outside: `values_of`, `store_values`, `said`, `waiting_tools`, `http_sentence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from graphrag.agent.thread_agent import ThreadAgent
from graphrag.agent.thread_store import Thread
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.i18n import LANGUAGES, Language, text
from graphrag.llm.base import AssistantMessage, UserMessage
from tools.http.compiled import reads_in
from tools.http.json_paths import Path
from tools.http.model import HttpTool
from tools.http.scope import ConversationValues, Scope, iso_time
from tools.http.stored_values import store_matches

TRANSCRIPT_CHARS: Final = 100_000  # of the end of a transcript, which has to fit into a request


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Locale:
    """Language and IANA time zone of the service, the defaults of agents."""

    language: Language = "en"
    timezone: str = "UTC"


def language_of(agent: CompiledAgent, locale: Locale) -> Language:
    """Returns the language of our texts for an agent's callers: its own if there are texts
    in it.
    """
    short = (agent.document.agent.language or locale.language).partition("-")[0].lower()
    found: Language | None = next((language for language in LANGUAGES if language == short), None)
    return found or locale.language


def http_sentence(code: str, language: str, fact: str) -> str:
    """Returns the sentence of an error. `language`: `fr-CA` is French, an unknown one English."""
    found: list[Language] = [known for known in LANGUAGES if language.casefold().startswith(known)]
    return text(f"http_{code}", found[0] if found else "en", fact=fact)


def about(agent: CompiledAgent, locale: Locale) -> dict[str, str]:
    """Returns the values of `agent.*` in templates."""
    identity = agent.document.agent
    return {
        "id": identity.id,
        "name": identity.name,
        "type": identity.type,
        "language": identity.language or locale.language,
        "timezone": identity.timezone or locale.timezone,
    }


def agent_part(thread: Thread) -> ThreadAgent:
    """Returns the agent's part of a thread, which must have one."""
    assert thread.agent is not None
    return thread.agent


def first_values(part: ThreadAgent, now: int) -> dict[str, Any]:
    """Returns ctx at the start of a conversation. A chat starts with a message, a call with
    silence.
    """
    return {
        "caller_phone": part.caller_phone,
        "agent_id": part.agent_id,
        "call_start": iso_time(now),
        "had_conversation": part.channel == "chat",
        "should_hangup": False,
        "transcript": [],
    }


def values_of(agent: CompiledAgent, thread: Thread, locale: Locale) -> ConversationValues:
    """Returns the values of a conversation. Changes of them do not change the thread."""
    part = agent_part(thread)
    language = language_of(agent, locale)
    named = about(agent, locale)
    transcript = transcript_of(thread)
    return ConversationValues(
        agent=named,
        base_url=agent.base_url,
        channel=part.channel,
        caller_phone=part.caller_phone,
        called_phone=part.called_phone,
        call_sid=part.call_sid,
        call_id=thread.key,
        timezone=named["timezone"],
        language=language,
        ctx={**part.ctx, "transcript": transcript},
        session=part.session,
        started_time=part.started_time,
        ended_time=part.ended_time,
        outcome=part.outcome,
        end_reason=part.end_reason,
        transcript=transcript,
        speakers={
            "user": text("agent_speaker_user", language),
            "assistant": text("agent_speaker_assistant", language),
        },
    )


def store_values(thread: Thread, values: ConversationValues, now: int, **changes: Any) -> Thread:
    """Returns the thread with the values of its conversation, and other changes of the agent's
    part.

    If the agent hung up, any server may end the conversation from now on.
    """
    part = agent_part(thread)
    ctx: dict[str, Any] = {**values.ctx, "transcript": []}  # it is the thread's own messages
    if ctx.get("should_hangup") is True and part.is_open and part.channel == "chat":
        changes.setdefault("idle_time", min(now, part.idle_time))
    return with_part(thread, ctx=ctx, **changes)


def with_part(thread: Thread, **changes: Any) -> Thread:
    """Returns the thread with changes of the agent's part."""
    return thread.model_copy(update={"agent": agent_part(thread).model_copy(update=changes)})


def said(thread: Thread, agent: CompiledAgent, now: int) -> Thread:
    """Returns the thread after a message of the person: its idle time starts again."""
    part = agent_part(thread)
    idle_time = now + round(agent.document.limits.chat_idle_s * 1000)
    ctx = {**part.ctx, "had_conversation": True}
    return with_part(thread, ctx=ctx, last_message_time=now, idle_time=idle_time)


def transcript_of(thread: Thread) -> list[dict[str, Any]]:
    """Returns the last `TRANSCRIPT_CHARS` of the utterances of person and agent."""
    entries: list[dict[str, Any]] = []
    left = TRANSCRIPT_CHARS
    for entry in _called(thread) if agent_part(thread).channel == "voice" else _written(thread):
        left -= len(entry["content"])
        if left < 0:
            break
        entries.append(entry)
    return entries[::-1]


def _called(thread: Thread) -> Iterator[dict[str, Any]]:
    """Yields the utterances of a call, newest first, in the form of requests."""
    for entry in reversed(agent_part(thread).transcript):
        if entry.get("role") in ("user", "assistant"):
            yield {name: entry.get(name) or "" for name in ("role", "content", "timestamp")}


def _written(thread: Thread) -> Iterator[dict[str, Any]]:
    for message in reversed(thread.messages):
        if not isinstance(message, UserMessage | AssistantMessage) or not message.content.strip():
            continue
        if isinstance(message, AssistantMessage) and message.invalid:
            continue
        role = "user" if isinstance(message, UserMessage) else "assistant"
        timestamp = iso_time(message.time or thread.created_time)
        yield {"role": role, "content": message.content, "timestamp": timestamp}


def taken(store: Mapping[str, Path], response: Any, scope: Scope) -> dict[str, Any]:
    """Returns the ctx values of a response: the first match of each path, or null."""
    found: dict[str, Any] = {}
    store_matches(found, store, response, scope)
    return found


def waiting_tools(agent: CompiledAgent) -> frozenset[str]:
    """Returns the tools that read results of `on_start`. A body builder may read all of ctx."""
    begun = agent.document.lifecycle.on_start
    stored = {("ctx", name) for name in begun.store_in_ctx} if begun else set[tuple[str, ...]]()

    def waits(tool: HttpTool) -> bool:
        read = {path[:2] for _, reads, _ in reads_in(tool, "") for path, _ in reads}
        return tool.body_builder is not None or not stored.isdisjoint(read)

    return frozenset(name for name, tool in agent.tools.items() if stored and waits(tool.model))
