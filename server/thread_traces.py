"""How the answers of a conversation or a run came about, as REST answers it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from graphrag.agent.turn_trace import outlined
from server.bodies import AnswerBody
from server.workspaces import WorkspaceContext

Turn = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="One turn only; without it, all of them.")
]
Brief = Annotated[bool, Query(description="Without spans and context.")]


class TraceSpan(AnswerBody):
    """One operation: `invoke_agent`, `retrieval`, `embeddings`, `chat` or `execute_tool`, with its
    facts.

    Units: `start` in milliseconds since 1970, `ms` in milliseconds.
    """

    operation: str
    name: str
    start: int
    ms: float
    failed: bool = False
    attributes: dict[str, Any]


class TurnTraced(AnswerBody):
    """How one answer came about. `question`: the beginning of what was asked. `ms`: without the
    time in which it waited for a person. `context`: what the model was sent first,
    `{role, text, chars}`, long texts cut. Units: `time` in milliseconds since 1970.
    """

    turn: int
    time: int
    question: str = ""
    ms: float = 0.0
    spans: list[TraceSpan] = Field(default_factory=list[TraceSpan])
    context: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])


class ThreadTrace(AnswerBody):
    thread_id: str
    turns: list[TurnTraced]


async def thread_trace(
    place: WorkspaceContext, thread_id: str, *, turn: int | None, brief: bool
) -> ThreadTrace:
    """Returns the turns of a conversation or run, oldest first; the caller checks who may see it.

    Raises: SourceError.
    """
    traces = place.services.traces
    stored = await traces.of_thread(thread_id, turn=turn)
    turns = [outlined(one, brief=brief) for one in stored]
    return ThreadTrace(thread_id=thread_id, turns=[TurnTraced.model_validate(one) for one in turns])
