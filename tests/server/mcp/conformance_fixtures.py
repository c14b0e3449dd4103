"""What the conformance suite calls, mounted beside the tools of the product.

The names and the texts are those that `@modelcontextprotocol/conformance` asks for in the
descriptions of its scenarios; transport, sign-in, limits and everything else is the product's.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

from server.mcp.mcp_server import Context, McpHandlers

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
IMAGE = types.ImageContent(data=PIXEL, mime_type="image/png")
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}


def words(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def resource(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(
        resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    )


CONTENTS: Mapping[str, list[types.ContentBlock]] = {
    "test_simple_text": [words("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [types.AudioContent(data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [
        resource("test://embedded-resource", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        words("Multiple content types test:"),
        IMAGE,
        resource(
            "test://mixed-content-resource", '{"test":"data","value":123}', "application/json"
        ),
    ],
}
RESOURCES = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "Watched resource content",
}
ENUMS = ["option1", "option2", "option3"]
TITLED = [
    {"const": f"value{n}", "title": f"{name} Option"}
    for n, name in enumerate(("First", "Second"), 1)
]
FORMS: Mapping[str, dict[str, Any]] = {
    "test_elicitation": {"username": {"type": "string"}, "email": {"type": "string"}},
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ENUMS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2"],
            "enumNames": ["Option One", "Option Two"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ENUMS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


def form(field: str, kind: str = "string") -> types.ElicitRequest:
    wanted = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return types.ElicitRequest(
        params=types.ElicitRequestFormParams(
            message=f"What is your {field}?", requested_schema=wanted
        )
    )


def asked_of_model(question: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=words(question))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


ROOTS = types.ListRootsRequest(params=types.RequestParams())
ROUNDS: Mapping[str, list[dict[str, Any]]] = {
    "test_input_required_result_elicitation": [{"user_name": form("name")}],
    "test_input_required_result_sampling": [
        {"capital_question": asked_of_model("What is the capital of France?")}
    ],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": form("ok", "boolean")}],
    "test_input_required_result_tampered_state": [{"confirm": form("ok", "boolean")}],
    "test_input_required_result_multiple_inputs": [
        {"user_name": form("name"), "greeting": asked_of_model("Greet me"), "client_roots": ROOTS}
    ],
    "test_input_required_result_multi_round": [{"step1": form("name")}, {"step2": form("color")}],
}
"""Of each tool, what it asks for in each round."""
STATEFUL = {name for name in ROUNDS if name.endswith(("state", "inputs", "round"))}
CAPABILITIES = "test_input_required_result_capabilities"
TOOLS = (
    *CONTENTS,
    *FORMS,
    *ROUNDS,
    CAPABILITIES,
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_missing_capability",
)
PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def said(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[words(text)], is_error=is_error)


def next_round(
    name: str, responses: Mapping[str, Any] | None, state: str | None
) -> types.CallToolResult | types.InputRequiredResult:
    """Ask for what a round needs until it is there, then go on to the next."""
    rounds = ROUNDS[name]
    at = int(state or 0)
    wanted = rounds[at]
    answered = all(usable(wanted[key], (responses or {}).get(key)) for key in wanted)
    if answered:
        at += 1
    if at == len(rounds):
        return said("state-ok: everything that was asked for is here")
    return types.InputRequiredResult(
        input_requests=rounds[at], request_state=str(at) if name in STATEFUL else None
    )


def usable(asked: Any, response: Any) -> bool:
    """Say whether a response answers what was asked, in the form that was asked for."""
    if not isinstance(asked, types.ElicitRequest):
        return response is not None
    if not isinstance(response, types.ElicitResult) or response.action != "accept":
        return False
    schema = cast(types.ElicitRequestFormParams, asked.params).requested_schema
    kinds: dict[str, type] = {"string": str, "boolean": bool}
    return all(
        isinstance((response.content or {}).get(key), kinds[each["type"]])
        for key, each in schema["properties"].items()
    )


class FixtureHandlers(McpHandlers):
    """The product's handlers, and before them those of the suite."""

    async def list_tools(self, ctx: Context, _: Any) -> types.ListToolsResult:
        own = await super().list_tools(ctx, _)
        more = [
            types.Tool(name=name, description="A fixture.", input_schema=OBJECT) for name in TOOLS
        ]
        header = {
            "type": "object",
            "properties": {"text": {"type": "string", "x-mcp-header": "Text"}},
        }
        echo = types.Tool(name="test_header_echo", description="A fixture.", input_schema=header)
        return types.ListToolsResult(tools=[*own.tools, *more, echo])

    async def call_tool(  # type: ignore[override]
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        name = params.name
        given = params.arguments or {}
        if name in CONTENTS:
            return types.CallToolResult(content=CONTENTS[name])
        if name in ROUNDS:
            return next_round(name, params.input_responses, params.request_state)
        if name in FORMS:
            schema: dict[str, Any] = {"type": "object", "properties": FORMS[name], "required": []}
            asked = await ctx.session.elicit(
                str(given.get("message", name)), schema, ctx.request_id
            )
            return said(
                f"User response: action={asked.action}, content={json.dumps(asked.content)}"
            )
        match name:
            case "test_input_required_result_capabilities":
                return types.InputRequiredResult(input_requests=self._of_capabilities(ctx))
            case "test_tool_with_logging":
                for line in (
                    "Tool execution started",
                    "Tool processing data",
                    "Tool execution completed",
                ):
                    await ctx.session.send_log_message(
                        "info", line, related_request_id=ctx.request_id
                    )
                return said("done")
            case "test_error_handling":
                return said("This tool intentionally returns an error for testing", is_error=True)
            case "test_tool_with_progress":
                for done in (0, 50, 100):
                    await ctx.session.report_progress(done, 100)
                return said("done")
            case "test_sampling":
                asked_for = asked_of_model(str(given.get("prompt", ""))).params
                answer = await ctx.session.create_message(
                    asked_for.messages, max_tokens=100, related_request_id=ctx.request_id
                )
                return said(f"LLM response: {getattr(answer.content, 'text', '')}")
            case "test_header_echo":
                return said(str(given.get("text", "")))
            case "test_missing_capability":
                has = ctx.session.client_capabilities
                if has is None or has.sampling is None:
                    needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
                    raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs sampling.", needed)
                return said("It has sampling.")
            case _:
                return await super().call_tool(ctx, params)

    def _of_capabilities(self, ctx: Context) -> dict[str, Any]:
        has = ctx.session.client_capabilities
        found: dict[str, Any] = {}
        if has is not None and has.sampling is not None:
            found["greeting"] = asked_of_model("Greet me")
        if has is not None and has.elicitation is not None:
            found["user_name"] = form("name")
        return found

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        own = await super().list_resources(ctx, params)
        more = [types.Resource(name=uri.rpartition("/")[2], uri=uri) for uri in RESOURCES]
        binary = types.Resource(
            name="static-binary", uri="test://static-binary", mime_type="image/png"
        )
        return types.ListResourcesResult(
            resources=[*own.resources, *more, binary], next_cursor=own.next_cursor
        )

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == "test://static-binary":
            blob = types.BlobResourceContents(uri=uri, blob=PIXEL, mime_type="image/png")
            return types.ReadResourceResult(contents=[blob])
        if uri.startswith("test://template/"):
            named = {"id": uri.split("/")[3], "templateTest": True, "data": f"Data for {uri}"}
            text = json.dumps(named)
            mime_type = "application/json"
        elif uri in RESOURCES:
            text = RESOURCES[uri]
            mime_type = "text/plain"
        else:
            return await super().read_resource(ctx, params)
        found = types.TextResourceContents(uri=uri, text=text, mime_type=mime_type)
        return types.ReadResourceResult(contents=[found])

    async def list_prompts(self, ctx: Context, _: Any) -> types.ListPromptsResult:
        own = await super().list_prompts(ctx, _)
        more = [
            types.Prompt(
                name=name,
                description="A fixture.",
                arguments=[types.PromptArgument(name=one, required=True) for one in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        return types.ListPromptsResult(prompts=[*own.prompts, *more])

    async def get_prompt(  # type: ignore[override]
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        contents: list[types.ContentBlock]
        match params.name:
            case "test_simple_prompt":
                contents = [words("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                contents = [
                    words(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")
                ]
            case "test_prompt_with_embedded_resource":
                held = resource(given["resourceUri"], "Embedded resource content for testing.")
                contents = [held, words("Please process the embedded resource above.")]
            case "test_prompt_with_image":
                contents = [IMAGE, words("Please analyze the image above.")]
            case "test_input_required_result_prompt":
                wanted = {"user_context": form("context")}
                answers = params.input_responses or {}
                if not usable(wanted["user_context"], answers.get("user_context")):
                    return types.InputRequiredResult(input_requests=dict(wanted))
                contents = [words("Answered.")]
            case _:
                return await super().get_prompt(ctx, params)
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="user", content=content) for content in contents]
        )

    async def complete(
        self, _: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        del params
        return types.CompleteResult(completion=types.Completion(values=["paris"], total=1))

    async def nothing(self, _: Context, params: Any) -> types.EmptyResult:
        """Answer what needs no more than an answer."""
        del params
        return types.EmptyResult()

    def server(self, **more: Any) -> Server[Any]:
        made = super().server(
            on_completion=self.complete,
            on_set_logging_level=self.nothing,
            on_subscribe_resource=self.nothing,
            on_unsubscribe_resource=self.nothing,
            **more,
        )
        if not any(isinstance(one, RequestStateBoundary) for one in made.middleware):
            security = RequestStateSecurity.ephemeral()
            made.middleware.append(RequestStateBoundary(security, default_audience=made.name))
        return made
