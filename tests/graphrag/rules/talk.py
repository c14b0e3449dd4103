"""Drives the offline answerer as an agent does: its calls run in a real tool box, their
answers go back.
"""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from datasources.mock import MemoryDatabase, open_nba
from datasources.types import Edge, Graph, Mutation, Node, NodeTypeConfig
from graphrag.approvals import Approval, Approvals, Person, outcome_facts, outcome_text
from graphrag.i18n import Language
from graphrag.importers.exchange import import_bytes
from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    AssistantMessage,
    Message,
    ModelOptions,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.model_text import complete
from graphrag.rules import RulesProvider
from mock_data import load_text
from tools.base import ToolContext, ToolResult
from tools.read_tools import READ_TOOLS
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

BOX = ToolBox((*READ_TOOLS, *WRITE_TOOLS))
MOST_ANSWERS = 6
CITED = re.compile(r"\{\{node:([^{}]{1,400})\}\}")

_workflows: dict[str, ToolContext] = {}
Outcome = Callable[[ToolCall, ToolResult], Awaitable[Approval]]


@dataclass(kw_only=True)
class Turn:
    """One question, what was called for it and what was said."""

    messages: list[Message]
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    answers: int = 0

    @property
    def text(self) -> str:
        """Return all that was said, before and after the calls."""
        return "\n".join(
            m.content for m in self.messages if isinstance(m, AssistantMessage) and m.content
        )

    @property
    def proposals(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (c.name, json.loads(c.arguments)) for c in self.calls if c.name.startswith("propose_")
        ]

    @property
    def cited(self) -> set[str]:
        return set(CITED.findall(self.text))


async def talk(
    context: ToolContext,
    question: str,
    *,
    before: Sequence[Message] = (),
    language: Language = "en",
    outcome: Outcome | None = None,
    options: ModelOptions = DEFAULT_OPTIONS,
) -> Turn:
    """Ask one question and run the calls until the answer. `outcome` stands for the
    person who decides.
    """
    provider = RulesProvider()
    start: list[Message] = [*before, UserMessage(content=question)]
    turn = Turn(messages=[])
    while True:
        answer = await complete(provider, [*start, *turn.messages], schemas(context.role), options)
        turn.answers += 1
        assert turn.answers <= MOST_ANSWERS, "it does not end"
        turn.messages.append(AssistantMessage(content=answer.text, tool_calls=answer.tool_calls))
        if not answer.tool_calls:
            assert answer.text, "an empty answer"
            return turn
        for call in answer.tool_calls:
            result = await BOX.run(call.name, call.arguments, context)
            turn.calls.append(call)
            turn.results.append(result)
            text = result.text
            facts = None
            if call.name.startswith("propose_") and not result.is_error:
                approval = await outcome(call, result) if outcome is not None else None
                text = outcome_text(approval, language) if approval is not None else text
                facts = (
                    outcome_facts(approval, language)
                    if approval is not None
                    else {"status": "pending"}
                )
            turn.messages.append(
                ToolMessage(
                    call_id=call.id,
                    name=call.name,
                    content=text,
                    is_error=result.is_error,
                    outcome=facts,
                )
            )


@cache
def schemas(role: Any) -> list[dict[str, Any]]:
    """Return the tools of a role as a provider gets them; writing them out takes longer
    than a turn.
    """
    return BOX.schemas(role)


@cache
def nba(role: Any = "editor") -> ToolContext:
    """Return the sample graph, shared: proposing changes nothing."""
    return ToolContext(source=open_nba().source("test"), graph_key="testgraph001", role=role)


async def workflow(name: str) -> ToolContext:
    """Return a sample workflow, imported once."""
    if name not in _workflows:
        database = MemoryDatabase()
        source = database.source("test")
        approvals = Approvals(source, database.records("test"))
        file = f"{name}.json"
        raw = load_text(f"workflows/{file}").encode()
        outcome = await import_bytes(
            approvals, raw, Person("eve", "editor", "test"), file_name=file, graph_key=name
        )
        assert outcome.refused is None
        _workflows[name] = ToolContext(source=source, graph_key=name, role="editor")
    return _workflows[name]


async def made(
    nodes: Sequence[Node],
    edges: Sequence[Edge] = (),
    configs: Sequence[NodeTypeConfig] = (),
    **graph: Any,
) -> ToolContext:
    """Return a graph made of these."""
    source = MemoryDatabase().source("w")
    await source.create_graph(Graph(key="g", workspace="w", **{"name": "G", **graph}))
    await source.apply(
        Mutation(graph_key="g", put_nodes=nodes, put_edges=edges, put_configs=configs)
    )
    return ToolContext(source=source, graph_key="g", role="editor")


async def keys_of(context: ToolContext) -> set[str]:
    return {node.key for node in await context.source.get_nodes(context.graph_key)}
