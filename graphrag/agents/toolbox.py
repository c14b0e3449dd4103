"""The tools of one conversation with an agent: those of its document, of its graphs, and
proposals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, cast, final

from pydantic import Field, create_model

from graphrag.agents.chat_values import waiting_tools
from graphrag.agents.compiled_agent import CompiledAgent
from graphrag.agents.voice_fields import Destination
from graphrag.i18n import Language, text
from tools.base import (
    GRAPH_ARGUMENT,
    DescribedArguments,
    Role,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
)
from tools.http.executor import HttpExecutor
from tools.http.model import BuiltinTool
from tools.http.scope import ConversationValues
from tools.http.tool import Declaration, http_tool
from tools.http.tool_run import ToolOutcome
from tools.read_tools import READ_TOOLS
from tools.read_tools.search_workspace import search_workspace
from tools.tool_box import ToolBox
from tools.write_tools import WRITE_TOOLS

HANGUP: Final = "hangup"
TRANSFER: Final = "transferTo"  # field of a tool's result: the name of the destination
SUMMARY_CHARS: Final = 600  # of the summary of a call: about 40 seconds when it is read aloud
_BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in (*READ_TOOLS, *WRITE_TOOLS)}
_ENDS = "End the conversation, once the person has what they came for or takes leave. Say goodbye as well."
_TRANSFERS = "Connect the caller with somebody. Say so before."
_SUMMARY = (
    "For the person who answers: who calls, what they want and what was done, in one to three sentences "
    "in the language of the conversation."
)

_OK = '{"status":"ok"}'
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}
RunTool = Callable[[DescribedArguments, ToolContext], Awaitable[ToolResult]]
TakeStart = Callable[[], Awaitable[None]]
"""Waits for the API's answer to the start of the conversation, and puts it into ctx."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTools:
    """Makes the tools of a conversation. The first of `graphs` is the one that it is about.

    `declarations`: those of its session. `outcomes` receives the outcomes of HTTP tools, by call
    id. `transfers`: the caller can be transferred to a person, as on the telephone.
    """

    agent: CompiledAgent
    declarations: Sequence[Declaration]
    values: ConversationValues
    executor: HttpExecutor
    take_start: TakeStart
    graphs: tuple[str, ...]
    proposes: bool
    outcomes: dict[str, ToolOutcome]
    transfers: bool = False

    def box(self) -> ToolBox:
        """Returns the tools, those of the document first."""
        return ToolBox([*self._declared(), *self._of_graphs()], unknown=_unknown_function)

    def _declared(self) -> list[Tool[Any]]:
        declared = {each.name: each for each in self.declarations}
        waiting = waiting_tools(self.agent)
        made: list[Tool[Any]] = []
        for name, compiled in self.agent.tools.items():
            if name in declared:
                tool = http_tool(
                    compiled, declared[name], self.executor, self.values, self.outcomes
                )
                made.append(self._waits(tool) if name in waiting else tool)
        for name, builtin in self.agent.builtins.items():
            said = declared[name].description if name in declared else ""
            if builtin.action == HANGUP:
                parameters = declared[name].parameters if name in declared else _NO_ARGUMENTS
                run = self._flagging(builtin, self._hang_up)
                made.append(_builtin(name, said or builtin.description or _ENDS, parameters, run))
            elif self.transfers and (known := self.agent.document.voice.destinations):
                people = "; ".join(f"{who}: {to.description}" for who, to in known.items())
                about = f"{said or builtin.description or _TRANSFERS} {people}"
                run = self._flagging(builtin, self._transfer)
                made.append(_builtin(name, about, _transfer_to(known), run))
        return made

    def _waits(self, tool: Tool[Any]) -> Tool[Any]:
        async def run(arguments: Any, context: ToolContext) -> ToolResult:
            await self.take_start()
            return await tool.run(arguments, context)

        return replace(tool, run=run)

    def _flagging(self, builtin: BuiltinTool, run: RunTool) -> RunTool:
        """Returns a function that runs a tool and sets the flags of its success."""

        async def running(arguments: Any, context: ToolContext) -> ToolResult:
            result = await run(arguments, context)
            self.values.ctx.update(dict.fromkeys(builtin.on_success_flags, True))
            return result

        return running

    async def _hang_up(self, _: DescribedArguments, __: ToolContext) -> ToolResult:
        self.values.ctx["should_hangup"] = True
        return ToolResult(text=_OK, data={"status": "ok"})

    async def _transfer(self, arguments: DescribedArguments, _: ToolContext) -> ToolResult:
        """Returns the destination's name. The model never supplies a number."""
        name = str(arguments.values["destination"])
        self.values.ctx["transfer_destination"] = name
        summary = str(arguments.values.get("summary") or "").strip()
        self.values.ctx["transfer_summary"] = summary[:SUMMARY_CHARS] or None
        return ToolResult(text=_OK, data={TRANSFER: name})

    def _of_graphs(self) -> list[Tool[Any]]:
        if not self.graphs:
            return []
        chosen = self.agent.document.graph_tools
        reads = [tool for tool in READ_TOOLS if tool is not search_workspace]
        reads = [tool for tool in reads if chosen == "all" or tool.name in chosen]
        tools = [*reads, *(WRITE_TOOLS if self.proposes else ())]
        if len(self.graphs) > 1:
            tools = [
                on_named_graph(tool, _arguments_with_graph(tool.name, self.graphs))
                for tool in tools
            ]
        return [*tools, *([_over_graphs(self.graphs)] if search_workspace.name in chosen else [])]


def _unknown_function(name: str, language: Language) -> str:
    return text("unknown_function", language, name=name)


def _builtin(name: str, description: str, parameters: Mapping[str, Any], run: RunTool) -> Tool[Any]:
    arguments = DescribedArguments
    return Tool(
        name=name,
        description=description,
        arguments=arguments,
        parameters=parameters,
        run=run,
        reusable=False,
    )


def _transfer_to(destinations: Mapping[str, Destination]) -> dict[str, Any]:
    """Returns the arguments of a transfer: one of the document's destinations, and a summary if
    one of them takes it.
    """
    choice = {"type": "string", "enum": list(destinations)}
    properties: dict[str, Any] = {
        "destination": choice,
        "reason": {"type": "string", "maxLength": 500},
    }
    if any(each.summary != "none" for each in destinations.values()):
        properties["summary"] = {"type": "string", "description": _SUMMARY}
    return {
        "type": "object",
        "properties": properties,
        "required": ["destination"],
        "additionalProperties": False,
    }


def agent_role(agent: CompiledAgent, person: Role) -> Role:
    """Returns the role of an agent's tools for a person: the lesser of both roles."""
    permissions = agent.document.permissions
    may_write = permissions.propose and permissions.role == "editor" and person != "viewer"
    return "editor" if may_write else "viewer"


def _over_graphs(graphs: tuple[str, ...]) -> Tool[Any]:
    """Returns the search of all graphs, limited to those of the agent."""

    async def run(arguments: Any, context: ToolContext) -> ToolResult:
        return await search_workspace.run(arguments, replace(context, graphs=graphs))

    return replace(search_workspace, run=run)


def on_named_graph(tool: Tool[Any], arguments: type[ToolArguments]) -> Tool[Any]:
    """Returns a tool whose calls name their graph. Its results are not reused, as only changes of
    the conversation's graph are noticed.
    """

    async def run(arguments: Any, context: ToolContext) -> ToolResult:
        said = arguments.model_dump(
            mode="json", by_alias=True, exclude={GRAPH_ARGUMENT}, exclude_unset=True
        )
        here = replace(context, graph_key=arguments.graph)
        return await tool.run(tool.arguments.model_validate(said), here)

    return replace(tool, arguments=arguments, run=run, reusable=False)


@lru_cache(maxsize=512)
def _arguments_with_graph(name: str, graphs: tuple[str, ...]) -> type[ToolArguments]:
    arguments = _BY_NAME[name].arguments
    choice = cast(Any, Literal)[graphs]
    said = Field(default=graphs[0], description=f"Which graph; default {graphs[0]}.")
    made: Any = create_model(
        f"{arguments.__name__}OnGraph", __base__=arguments, graph=(choice, said)
    )
    return made
