"""What REST shows of the agent of a conversation."""

from __future__ import annotations

from typing import Any

from graphrag.agent.thread_store import Thread
from server.requests import AnswerBody


class AgentToolRun(AnswerBody):
    """A tool call of a conversation. `ok` is absent where it was interrupted and may have been carried out.

    Units: `ms`; `status` of HTTP.
    """

    tool_call_id: str
    name: str
    ok: bool | None = None
    ms: int = 0
    status: int | None = None


class ThreadAgentView(AnswerBody):
    """The agent of a conversation and what the conversation knows. Units: milliseconds since 1970.

    `flags` are what tools made true; `ctx` its other values.
    """

    agent_id: str
    version: int
    flags: dict[str, bool]
    ctx: dict[str, Any]
    caller_phone: str | None = None
    started_time: int
    last_message_time: int
    ended_time: int | None = None
    end_reason: str | None = None
    outcome: str | None = None
    tools: list[AgentToolRun]

    @classmethod
    def of(cls, thread: Thread) -> ThreadAgentView | None:
        """Return what is shown of a thread's agent; None where it has none."""
        if (part := thread.agent) is None:
            return None
        values = {name: value for name, value in part.ctx.items() if name != "transcript"}
        flags = {name: value for name, value in values.items() if isinstance(value, bool)}
        rest = {name: value for name, value in values.items() if name not in flags}
        return cls.model_validate(part.model_dump() | {"flags": flags, "ctx": rest})
