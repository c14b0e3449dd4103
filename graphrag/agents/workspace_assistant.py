"""Answers in a conversation about all graphs of a workspace.

It searches and reads all of them. It proposes nothing: a change belongs to a conversation about its
graph, or to a codemod.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Final, final

from pydantic import Field, create_model

from graphrag.agent.assistant import TurnSetup
from graphrag.agent.chat_turn import ChatKind
from graphrag.agent.events import Ending
from graphrag.agent.turn import Turn
from graphrag.agent.turn_steps import TurnSteps
from graphrag.agents.toolbox import on_named_graph
from graphrag.approvals import Person
from graphrag.llm.base import SystemMessage, UserMessage
from graphrag.prompts.library import load_phrases
from graphrag.retrieval.context import CONTEXT_MARKER
from tools.base import GRAPH_ARGUMENT, Tool
from tools.read_tools.detail import read_node_detail
from tools.read_tools.overview import read_graph_overview
from tools.read_tools.search_workspace import SearchAllGraphs, search_workspace
from tools.tool_box import ToolBox

QUERY_CHARS: Final = 1_000  # of a message, for the search of all graphs


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceAssistant:
    """An `Assistant` that is given the results of a search of all graphs."""

    steps: TurnSteps

    async def write_instructions(self, turn: Turn) -> SystemMessage:
        return SystemMessage(content=load_phrases("agent", turn.language)["workspace"].render({}))

    async def open(self, turn: Turn, message: UserMessage) -> None:
        if turn.conversation.instructions is None:
            turn.conversation.insert_instructions(await self.write_instructions(turn))
        query = SearchAllGraphs.model_construct(query=message.content[:QUERY_CHARS], kind=None)
        result = await search_workspace.run(query, self.steps.place(turn).context)
        context = SystemMessage(content=f"{CONTEXT_MARKER}\n{result.text}", stable=False)
        turn.begin(context, message, rounds=self.steps.limits.rounds)

    async def finish(self, _turn: Turn, ending: Ending) -> Ending:
        return ending


def set_up_workspace(plain: TurnSteps, person: Person) -> TurnSetup:
    """Returns the collaborators of a turn about all graphs. `plain`: the steps about one graph."""
    box = _box()
    steps = replace(plain, caller=plain.caller.with_tools(box), calls=plain.calls.with_tools(box))
    assistant = WorkspaceAssistant(steps=steps)
    return TurnSetup(assistant=assistant, steps=steps, kind=ChatKind(), role=person.role)


@cache
def _box() -> ToolBox:
    return ToolBox([search_workspace, *map(_on_any_graph, (read_graph_overview, read_node_detail))])


def _on_any_graph(tool: Tool[Any]) -> Tool[Any]:
    """Returns a tool whose calls name a graph of the workspace."""
    named: Any = (Annotated[str, Field(min_length=1, max_length=200)], ...)
    arguments: Any = create_model(
        f"{tool.arguments.__name__}OnAny", __base__=tool.arguments, graph=named
    )

    example = {GRAPH_ARGUMENT: "order-refund", **tool.example}
    return replace(on_named_graph(tool, arguments), example=example)
