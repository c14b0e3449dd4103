"""The MCP server: what clients list, call and read, over any transport. It proposes and never
decides.

Source: Model Context Protocol, revisions 2025-11-25 (with sessions) and 2026-07-28 (without).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from graphrag.i18n import Language, text
from server.auth import Identity
from server.channels.mcp_tools import PROPOSAL_STATUS, listed_tools
from server.error_responses import error_response, note
from server.mcp import graph_resources
from server.mcp.app_resource import EXTENSION, MIME_TYPE
from server.mcp.tool_answers import answer_call
from server.workspaces import WorkspaceResolver

MAX_ARGUMENT: Final = 2_000
_GRAPH: Final = ("graphKey", "Key of the graph.")
_PROMPTS: Final[Mapping[str, tuple[str, tuple[tuple[str, str], ...], str]]] = {
    "ask": (
        "Ask about a graph.",
        (_GRAPH, ("question", "What you want to know.")),
        "Answer this about the workflow graph {graphKey}: {question}\n"
        "Read the resource nodius://graph/{graphKey} first, then use the tools. Name the nodes you rest on.",
    ),
    "review": (
        "Go through the proposals of a graph that wait for a decision.",
        (_GRAPH,),
        "Call list_proposals for the graph {graphKey}. For each say what it changes, what it may break, and "
        "give its link: only a person decides it.",
    ),
    "explain": (
        "Explain a node and what depends on it.",
        (_GRAPH, ("nodeKey", "Key of the node.")),
        "Explain the node {nodeKey} of the workflow graph {graphKey} to somebody who edits it: what it does, "
        "what comes before and after, what happens when it fails. Use read_node_detail.",
    ),
}


def listed_prompts() -> list[types.Prompt]:
    return [
        types.Prompt(
            name=name,
            description=said,
            arguments=[
                types.PromptArgument(name=each, description=what, required=True)
                for each, what in given
            ],
        )
        for name, (said, given, _) in _PROMPTS.items()
    ]


def prompt(name: str, arguments: Mapping[str, str] | None) -> types.GetPromptResult:
    """Returns a prompt with its arguments. Raises: MCPError (unknown prompt, or a missing
    argument).
    """
    found = _PROMPTS.get(name)
    if found is None:
        raise MCPError(
            code=types.INVALID_PARAMS, message=f"no such prompt; there are {', '.join(_PROMPTS)}"
        )
    said, given, body = found
    values = {
        each: " ".join((arguments or {}).get(each, "").split())[:MAX_ARGUMENT] for each, _ in given
    }
    if missing := [each for each, value in values.items() if not value]:
        raise MCPError(code=types.INVALID_PARAMS, message=f"missing argument: {', '.join(missing)}")
    content = types.TextContent(type="text", text=body.format(**values))
    return types.GetPromptResult(
        description=said, messages=[types.PromptMessage(role="user", content=content)]
    )


R = TypeVar("R")
Context = ServerRequestContext[Any, Any]
Handler = Callable[[Context, Any], Awaitable[R]]
# Returns the workspaces of the sender of a request. Raises: the refusal of the sender.
PlacesOf = Callable[[Context], Awaitable[WorkspaceResolver]]


def through_mcp(identity: Identity, ctx: Context) -> Identity:
    """Returns the identity with the program that sends a request."""
    info = ctx.session.client_params.client_info if ctx.session.client_params else None
    return identity.through("mcp", info.name if info else "", info.version if info else "")


NAME: Final = "nodius-graphrag"
INSTRUCTIONS: Final = (
    "Workflow graphs of a team: find with search_workspace, read with the read tools, propose changes with "
    "propose_*. A proposal changes nothing: give the person its link, and ask proposal_status later."
)
# Seconds that a call waits for a person to see the link, in the older revision.
LINK_S: Final = 30.0
_MINUTE_MS: Final = 60_000
CACHE_HINTS: Final[dict[CacheableMethod, CacheHint]] = {
    "tools/list": CacheHint(ttl_ms=10 * _MINUTE_MS),
    "prompts/list": CacheHint(ttl_ms=10 * _MINUTE_MS, scope="public"),
    "resources/templates/list": CacheHint(ttl_ms=10 * _MINUTE_MS, scope="public"),
    "resources/list": CacheHint(ttl_ms=_MINUTE_MS // 6),
    "resources/read": CacheHint(ttl_ms=_MINUTE_MS // 6),
}


class McpHandlers:
    """Answers the requests of MCP clients. `default_graph`: used if a call names none. `security`
    seals the state that a client returns after it has shown a person the link of a proposal;
    without it no client is asked to open a link.
    """

    def __init__(
        self,
        places: PlacesOf,
        *,
        language: Language = "en",
        default_graph: str | None = None,
        security: RequestStateSecurity | None = None,
    ) -> None:
        self._places = places
        self._default_graph = default_graph
        self._security = security
        self._language: Language = language

    async def list_tools(self, ctx: Context, _: Any) -> types.ListToolsResult:
        places = await self._places(ctx)
        box = (await places.first()).services.box
        tools = listed_tools(box, places.identity.role, self._default_graph)
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        places = await self._places(ctx)
        await ctx.session.report_progress(0, 1)
        name = params.name
        arguments = params.arguments or {}
        if params.request_state is not None:  # it proposed this before, and has shown the link
            name = PROPOSAL_STATUS
            arguments = {"id": params.request_state}
        result = await answer_call(
            places, name, arguments, default_graph=self._default_graph, language=self._language
        )
        await ctx.session.report_progress(1, 1)
        is_new = name.startswith("propose_") and not result.is_error
        return await self._with_link(ctx, result) if is_new else result

    async def _with_link(
        self, ctx: Context, found: types.CallToolResult
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Asks a client that can open addresses to show a person where a new proposal is
        decided.
        """
        facts: dict[str, Any] = found.structured_content or {}
        has = ctx.session.client_capabilities
        if (
            self._security is None
            or has is None
            or has.elicitation is None
            or has.elicitation.url is None
        ):
            return found
        message = text("mcp_open_link", self._language, title=facts["title"])
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            shown = types.ElicitRequestURLParams(message=message, url=facts["link"])
            asked: dict[str, Any] = {"review": types.ElicitRequest(params=shown)}
            return types.InputRequiredResult(input_requests=asked, request_state=facts["id"])
        with suppress(TimeoutError, MCPError, NoBackChannelError):
            async with asyncio.timeout(LINK_S):
                await ctx.session.elicit_url(message, facts["link"], facts["id"], ctx.request_id)
        return found

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return await graph_resources.listed(
            await self._places(ctx), params.cursor if params else None
        )

    async def list_templates(self, ctx: Context, _: Any) -> types.ListResourceTemplatesResult:
        await self._places(ctx)
        return types.ListResourceTemplatesResult(resource_templates=graph_resources.templates())

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await graph_resources.read(await self._places(ctx), str(params.uri), self._language)

    async def list_prompts(self, ctx: Context, _: Any) -> types.ListPromptsResult:
        await self._places(ctx)
        return types.ListPromptsResult(prompts=listed_prompts())

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        await self._places(ctx)
        return prompt(params.name, params.arguments)

    def _told(
        self, handler: Callable[[Context, Any], Awaitable[R]]
    ) -> Callable[[Context, Any], Awaitable[R]]:
        """Returns a handler whose failures are errors of the protocol, with texts that clients may
        see.
        """

        async def answer(ctx: Context, params: Any) -> R:
            try:
                return await handler(ctx, params)
            except MCPError:
                raise
            except Exception as exc:
                note(exc)
                message = error_response(exc, self._language).message
                raise MCPError(code=types.INTERNAL_ERROR, message=message) from exc

        return answer

    def server(self, **more: Any) -> Server[Any]:
        """Returns the server. `more`: further handlers of the package's `Server`."""
        made: Server[Any] = Server(
            NAME,
            version=version("nodius-graphrag"),
            title="Nodius",
            instructions=INSTRUCTIONS,
            cache_hints=CACHE_HINTS,
            on_list_tools=self._told(self.list_tools),
            on_call_tool=self._told(self.call_tool),
            on_list_resources=self._told(self.list_resources),
            on_list_resource_templates=self._told(self.list_templates),
            on_read_resource=self._told(self.read_resource),
            on_list_prompts=self._told(self.list_prompts),
            on_get_prompt=self._told(self.get_prompt),
            **more,
        )
        made.extensions = {EXTENSION: {"mimeTypes": [MIME_TYPE]}}
        if self._security is not None:
            made.middleware.append(RequestStateBoundary(self._security, default_audience=NAME))
        return made
