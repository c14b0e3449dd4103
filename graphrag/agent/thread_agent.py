"""The stored form of a conversation with a declarative agent: the sub-document `agent` of its
thread.

It is written with its thread in one compare-and-set. Other conversations do not have it.
"""

from __future__ import annotations

from typing import Any, Final, Literal, final

from pydantic import ConfigDict, Field

from datasources.types import Document

EndReason = Literal[
    "caller_hung_up", "agent_hung_up", "ended_by_person", "idle", "transferred", "blocked", "max_duration",
    "caller_silent", "line_lost", "model_unreachable", "model_refused", "session_failed", "draining",
    "lost", "error",
]  # fmt: skip
"""Why a conversation or a call ended. `draining`: its agent was taken out of service, or its graph
deleted.
"""
Channel = Literal["chat", "voice"]

AGENT_INDEXED_FIELDS: Final = ("agentId", "agentOpen", "agentIdleTime")
"""Fields that the record of a thread repeats, for queries."""


@final
class AgentToolCall(Document):
    """A finished tool call. `ok` None: it was interrupted and may have been carried out.

    A call by telephone also has `arguments`, `result` and `turn`, the number of the caller's
    utterance; a chat has them in its messages. Units: `ms` in milliseconds; `status`: HTTP status,
    if there was an answer.
    """

    tool_call_id: str
    name: str
    ok: bool | None = None
    ms: int = 0
    status: int | None = None
    arguments: str | None = None
    result: str | None = None
    turn: int | None = None


@final
class ThreadAgent(Document):
    """The agent of a thread, and the values of this conversation. Units: milliseconds since 1970.

    `ctx`: the values and flags. `session`: the whole answer of the document's `config_url`, or
    null. `instructions` are rendered. `declarations` None: those of the document. `transcript`: the
    utterances of a call, of the agent only what the caller heard; a chat has messages.
    """

    model_config = ConfigDict(extra="forbid")

    agent_id: str
    version: int
    channel: Channel = "chat"
    ctx: dict[str, Any] = Field(default_factory=dict[str, Any])
    session: Any = None
    instructions: str = ""
    declarations: list[dict[str, Any]] | None = None
    caller_phone: str | None = None
    called_phone: str | None = None
    call_sid: str | None = None
    transcript: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    started_time: int = 0
    last_message_time: int = 0
    idle_time: int = 0
    """When the conversation ends without a further message; in the past if the agent hung up."""
    start_taken: bool = False
    """Whether `ctx` contains the answer to `on_start`."""
    ended_time: int | None = None
    end_reason: EndReason | None = None
    outcome: str | None = None
    tools: list[AgentToolCall] = Field(default_factory=list[AgentToolCall])

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.ended_time is None

    def indexed(self) -> dict[str, Any]:
        """Returns the fields that the record of the thread repeats, for queries."""
        found: dict[str, Any] = {"agentOpen": self.is_open, "agentId": self.agent_id}
        return found | ({"agentIdleTime": self.idle_time} if self.is_open else {})
