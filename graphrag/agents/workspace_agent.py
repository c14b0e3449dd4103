"""The agent of a conversation about all graphs of a workspace: what it knows comes from a search of them all.

It reads and proposes nothing: a change belongs to a conversation about its graph, or to a codemod.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Annotated, Any

from pydantic import Field, create_model

from graphrag.agent.loop import Agent
from graphrag.agent.running_turn import RunningTurn
from graphrag.agent.thread_store import StoredThread
from graphrag.agent.turn_lease import TurnLease
from graphrag.agents.toolbox import GRAPH, GraphToolCalls, on_named_graph
from graphrag.approvals import Person
from graphrag.i18n import Language
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.prompts.library import load_phrases
from graphrag.retrieval.context import CONTEXT_MARKER
from tools.base import Tool, ToolBox
from tools.read_tools.detail import read_node_detail
from tools.read_tools.overview import read_graph_overview
from tools.read_tools.search_workspace import SearchAllGraphs, search_workspace

QUERY_CHARS = 1_000


class WorkspaceAgent(Agent):
    """Takes up one turn of a conversation whose graph is none."""

    def _turn_of(
        self, stored: StoredThread, person: Person, language: Language, hold: TurnLease
    ) -> RunningTurn:
        turn = super()._turn_of(stored, person, language, hold)
        turn.always_sent = ()
        self._caller = self._caller.with_tools(_box())
        self._calls = GraphToolCalls.of(self._calls, _box(), ())
        return turn

    async def _open(self, turn: RunningTurn, said: UserMessage) -> None:
        if not any(isinstance(message, SystemMessage) and message.stable for message in turn.messages):
            turn.messages.insert(0, await self._instructions(turn))
        asked = SearchAllGraphs.model_construct(query=said.content[:QUERY_CHARS], kind=None)
        found = await search_workspace.run(asked, self._place(turn).context)
        context = SystemMessage(content=f"{CONTEXT_MARKER}\n{found.text}", stable=False)
        turn.begin(context, said, rounds=self.limits.rounds)

    async def _instructions(self, turn: RunningTurn) -> SystemMessage:
        return SystemMessage(content=load_phrases("agent", turn.language)["workspace"].render({}))


@cache
def _box() -> ToolBox:
    return ToolBox([search_workspace, *map(_on_any_graph, (read_graph_overview, read_node_detail))])


def _on_any_graph(tool: Tool[Any]) -> Tool[Any]:
    """Return a tool whose calls name a graph of the workspace."""
    named: Any = (Annotated[str, Field(min_length=1, max_length=200)], ...)
    arguments: Any = create_model(f"{tool.arguments.__name__}OnAny", __base__=tool.arguments, graph=named)

    example = {GRAPH: "order-refund", **tool.example}
    return replace(on_named_graph(tool, arguments), example=example)
