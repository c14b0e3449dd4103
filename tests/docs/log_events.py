"""The events that operators build on: name, level and facts of each, kept from version to version.

Every event has a time, and `threadId`, `turn` and `sessionId` where there is one. None holds prompt
text, node data or keys; `raw` alone holds what a model wrote in place of arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LogEvent:
    level: Literal["debug", "info", "warning", "error"]
    facts: tuple[str, ...]
    meaning: str


LOG_EVENTS: Mapping[str, LogEvent] = {
    "started": LogEvent("info", ("provider", "model", "embedder"), "Who answers and who embeds."),
    "agent_chat_start": LogEvent(
        "debug", ("graphKey", "threadId", "messageLen", "role"), "A person's message begins a turn."
    ),
    "embedding_model_kept": LogEvent(
        "warning",
        ("stored", "chosen"),
        "The stored vectors are of another model than the settings choose.",
    ),
    "rag_embedding": LogEvent("debug", ("dim", "ms"), "A question was embedded."),
    "rag_retrieve": LogEvent(
        "debug",
        ("nodeCount", "edgeCount", "cacheHit", "mode", "ms"),
        "A question was retrieved for.",
    ),
    "second_look": LogEvent(
        "info",
        ("candidates", "relevant", "failed", "ms"),
        "A model assessed what was found for a question.",
    ),
    "prompt_built": LogEvent(
        "debug",
        ("system", "history", "calls", "results", "phrase"),
        "What a model is sent: count and tokens of each kind, and what is asked of its answer.",
    ),
    "llm_call_start": LogEvent("debug", ("messageCount", "toolCount"), "The model is asked."),
    "llm_call_done": LogEvent("debug", ("tokens", "ms", "toolCalls"), "The model's answer ended."),
    "tool_execute": LogEvent("debug", ("tool",), "A tool runs."),
    "tool_result": LogEvent("debug", ("tool", "resultLen", "ms"), "A tool has its result."),
    "hitl_interrupt": LogEvent("debug", ("tool", "approvalId"), "A proposal waits for people."),
    "ws_chat": LogEvent("debug", (), "A message came by WebSocket."),
    "ws_resume": LogEvent("debug", (), "A decision or a request to go on came by WebSocket."),
    "token_usage": LogEvent(
        "info",
        ("provider", "model", "prompt", "completion", "cached"),
        "What one call of a model used.",
    ),
    "usage_limit": LogEvent("warning", ("limit", "allowed", "reached"), "A limit refused a call."),
    "malformed_json": LogEvent(
        "warning",
        ("tool", "raw", "corrected"),
        "Arguments of a call were no JSON; at most 500 characters.",
    ),
    "tool_call": LogEvent(
        "info",
        ("tool", "agent_id", "call_id", "duration_ms", "ok", "status"),
        "A tool of an agent ended, of its document or of the graph; `call_id` is the conversation's.",
    ),
    "tool_arguments": LogEvent(
        "debug",
        ("tool", "agent_id", "call_id", "arguments"),
        "The arguments of a tool of an agent, secrets masked and numbers shortened.",
    ),
    "http_call": LogEvent(
        "info",
        ("method", "host", "path", "status", "code", "ms"),
        "A request of an agent document ended; `path` as the document writes it, `code` where it failed.",
    ),
    "flags_set": LogEvent(
        "info", ("agent_id", "call_id", "flags"), "A tool made flags of a document true."
    ),
    "call_started": LogEvent(
        "info",
        ("agent_id", "call_id", "channel"),
        "A conversation with an agent began, by chat or telephone.",
    ),
    "call_ended": LogEvent(
        "info", ("agent_id", "call_id", "reason", "outcome"), "Such a conversation ended."
    ),
    "barge_in": LogEvent(
        "info",
        ("call_id", "heard_ms", "reaction_ms"),
        "A caller interrupted an agent; `reaction_ms` until the phone side was told to be silent.",
    ),
    "delivery": LogEvent(
        "info",
        ("agent_id", "call_id", "delivery", "status", "http"),
        "It was tried to send what the API of an agent is owed; `status` is what became of it.",
    ),
    "calls_draining": LogEvent(
        "info", ("calls",), "The service is to stop, and lets so many calls end."
    ),
    "notices_connected": LogEvent(
        "info",
        ("after_s",),
        "The database tells changes; `after_s` is how long it did not, 0 at the start.",
    ),
    "notices_lost": LogEvent(
        "warning", ("error",), "The database tells no changes: they are read at intervals."
    ),
    "event_loop_late": LogEvent(
        "warning", ("late_s",), "Nothing was answered for so long: sound stopped."
    ),
    "client_disconnect_abort": LogEvent(
        "warning", ("tokensStreamed",), "A client left in the middle of a turn, which is stopped."
    ),
    "llm_error": LogEvent(
        "error", ("provider", "model", "statusCode", "code"), "A model failed a turn."
    ),
}
