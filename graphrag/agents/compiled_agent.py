"""A checked agent document in the form that conversations use.

From outside: `CompiledAgent`, `compile_agent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

from graphrag.agents.document import AgentDocument, OutcomeRule
from graphrag.agents.session_fields import FetchedSession
from tools.http.compiled import CompiledTool, compile_tool
from tools.http.model import BuiltinTool, HttpTool, RequestLike


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledAgent:
    """A checked agent. `base_url` ends without a slash."""

    document: AgentDocument
    base_url: str | None
    tools: Mapping[str, CompiledTool]
    builtins: Mapping[str, BuiltinTool]

    @property
    def agent_id(self) -> str:
        return self.document.agent.id

    @property
    def flags(self) -> frozenset[str]:
        """Returns the names of the flags that its tools can set."""
        tools = (*(tool.model for tool in self.tools.values()), *self.builtins.values())
        return frozenset(flag for tool in tools for flag in tool.on_success_flags)

    @property
    def outcome_rules(self) -> list[OutcomeRule]:
        """Returns the rules by priority, then by position."""
        placed = list(enumerate(self.document.lifecycle.outcome_rules, 1))
        placed.sort(
            key=lambda each: (each[0] if each[1].priority is None else each[1].priority, each[0])
        )
        return [rule for _, rule in placed]


def compile_agent(document: AgentDocument) -> CompiledAgent:
    """Returns the agent of a checked document."""
    timeout_s = document.limits.tool_timeout_s
    tools = {name: tool for name, tool in document.tools.items() if isinstance(tool, HttpTool)}
    return CompiledAgent(
        document=document,
        base_url=document.base_url.rstrip("/") if document.base_url else None,
        tools={name: compile_tool(name, tool, timeout_s=timeout_s) for name, tool in tools.items()},
        builtins={
            name: tool for name, tool in document.tools.items() if isinstance(tool, BuiltinTool)
        },
    )


def requests_of(document: AgentDocument) -> Iterator[tuple[str, RequestLike]]:
    """Yields every request that an agent may send, with its place in the document."""
    for index, check in enumerate(document.pre_call_checks):
        yield f"pre_call_checks.{index}", check
    if isinstance(document.session, FetchedSession):
        yield "session", document.session
    for event in ("on_start", "on_transfer", "on_no_action", "on_end"):
        if (request := getattr(document.lifecycle, event)) is not None:
            yield f"lifecycle.{event}", request
    for name, tool in document.tools.items():
        if isinstance(tool, HttpTool):
            for index, step in enumerate(tool.pre_steps):
                if step.url is not None:
                    yield f"tools.{name}.pre_steps.{index}", step
            yield f"tools.{name}", tool


def graphs_of(agent: CompiledAgent, about: str) -> tuple[str, ...]:
    """Returns the graphs of an agent, that of the conversation first."""
    return tuple(sorted(agent.document.graphs, key=lambda key: key != about))
