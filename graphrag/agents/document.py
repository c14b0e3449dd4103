"""The agent document: what an agent is made of, every field with its default and bounds.

An example of each stands in `field_examples.json`, by its name, or as `PART.NAME` where that of
a part is another. From outside: `AgentDocument` and its parts, and `agent_schema`: its JSON
Schema (draft 2020-12).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast, final

from pydantic import Field

from graphrag.agents.session_fields import FetchedSession, InlineSession
from graphrag.agents.voice_fields import (
    LanguageCode,
    Name,
    Text40,
    Text100,
    VoiceModel,
    VoiceOptions,
)
from tools.http.expressions import Expression, parse_expression
from tools.http.model import (
    BuiltinTool,
    CtxName,
    DocumentPart,
    HttpTool,
    JsonPath,
    Parsed,
    RequestFields,
    ValueName,
    Whole,
    described,
)
from tools.http.problems import BadText
from tools.http.value_templates import ValueTemplate, parse_template

HostPattern = Annotated[
    str,
    Field(max_length=260, pattern=r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$"),
]
Message = Annotated[ValueTemplate, Parsed(parse_template, least=1, most=300)]
GreetingText = Annotated[ValueTemplate, Parsed(parse_template, least=1, most=4_000)]
NeededCondition = Annotated[Expression, Parsed(parse_expression, least=1, most=1_000)]


def _value_path(path: str) -> ValueTemplate:
    """Return a path as a template, which gives its value."""
    try:
        found = parse_template(f"{{{{{path}}}}}")
    except BadText as bad:
        raise BadText(
            bad.code, bad.what, allowed=bad.allowed, column=max(1, (bad.column or 3) - 2)
        ) from bad
    return replace(
        found, source=path, reads=tuple((read, column - 2) for read, column in found.reads)
    )


ValuePathText = Annotated[
    ValueTemplate,
    Parsed(
        _value_path,
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*$")],
        most=500,
    ),
]
Handler = Annotated[HttpTool | BuiltinTool, Field(discriminator="type")]


@final
class AgentIdentity(DocumentPart):
    """Who the agent is."""

    id: str = described("Id, unique in the workspace.", pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")
    name: str = described("Name for people.", min_length=1, max_length=120)
    type: Text40 = described("Kind of agent, for logs and metrics.", "general")
    description: str = described("What it is for.", "", max_length=500)
    language: LanguageCode | None = described("Language (BCP-47); without it the service's.", None)
    timezone: str | None = described(
        "Time zone (IANA); without it the service's.", None, min_length=1, max_length=64
    )


@final
class ChatModel(DocumentPart):
    """The model of chats."""

    provider: Text40 | None = described("Whose model answers; without it the service's.", None)
    model: Text100 | None = described("Name of the model; without it the provider's.", None)
    temperature: float | None = described("Sampling temperature.", None, ge=0, le=2)
    max_rounds: Whole = described("Rounds of tool calls for one message.", 5, ge=1, le=10)
    opening: str | None = described(
        "Shown before the first message, as it stands.", None, min_length=1, max_length=2_000
    )


@final
class AgentPermissions(DocumentPart):
    """What the agent may do to graphs."""

    propose: bool = described("It may propose changes, which people decide.", False)
    role: Literal["viewer", "editor"] = described(
        "Its role, editor for `propose`; in chat the lesser of this and the person's.", "viewer"
    )


@final
class PreCallCheck(RequestFields):
    """A request that may block a conversation before it begins."""

    name: str = described("Name of the check.", min_length=1, max_length=80)
    method: Literal["GET", "POST"] = described("Method of the request.", "GET")  # pyright: ignore[reportIncompatibleVariableOverride]
    block_if: NeededCondition = described("Expression over the answer (`$`); true blocks.")
    on_block: Literal["hangup", "message"] = described("End at once, or say `message` first.")
    message: Message | None = described(
        "Template of what is said; required for `on_block: message`.", None
    )
    on_error: Literal["allow", "block"] = described("What a failed request means.", "allow")
    timeout_s: float = described("Seconds to wait.", 3, ge=0.5, le=5)


@final
class Greeting(DocumentPart):
    """What the model is asked to greet with. One of the two texts is required."""

    known_customer: GreetingText | None = described("Template for a caller who is known.", None)
    unknown_customer: GreetingText | None = described("Template for any other caller.", None)
    condition_field: ValuePathText | None = described(
        'The caller is known where this value is neither null nor "".', None
    )
    interruptible: bool = described("The caller may interrupt it.", True)


class StartRequest(RequestFields):
    """The request when a conversation has begun."""

    store_in_ctx: dict[CtxName, JsonPath] = described(
        "Values of the answer, by JSONPath, stored in ctx.", {}, max_length=50
    )


@final
class NoActionRequest(StartRequest):
    """The request at the end of a conversation in which nothing was done."""

    condition: NeededCondition = described("Expression; the request is made where it is true.")
    description: str = described("For people.", "", max_length=500)


@final
class OutcomeRule(DocumentPart):
    """One rule of how a conversation ended; the first whose flag is true gives the outcome."""

    flag: ValueName | None = described("Flag in ctx, or null: always.", None)
    outcome: str = described("The outcome.", min_length=1, max_length=60)
    priority: Whole | None = described(
        "Lower ones come first; without it the rule's position.", None
    )


@final
class Lifecycle(DocumentPart):
    """Requests at the beginning and end of a conversation, and how its outcome is found."""

    on_start: StartRequest | None = described("Sent when a conversation has begun.", None)
    on_transfer: RequestFields | None = described(
        "Sent when a call is transferred to a destination with `summary: posted`.", None
    )
    on_no_action: NoActionRequest | None = described(
        "Sent at the end where its condition is true, never for a caller who was put through.", None
    )
    on_end: RequestFields | None = described("Sent last.", None)
    outcome_rules: list[OutcomeRule] = described("How the outcome is found.", [], max_length=50)


@final
class SecretUse(DocumentPart):
    """A secret that headers may hold; its value is configured where the service runs."""

    name: str = described("Name of the secret.", pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    hosts: list[HostPattern] = described(
        "The only hosts that get it, as api.example.com, *.example.com or api.example.com:8443.",
        min_length=1,
        max_length=20,
    )


@final
class ConversationLimits(DocumentPart):
    """Bounds of what an agent does."""

    max_calls: Whole = described("Calls at once.", 10, ge=1, le=1000)
    max_call_s: float = described("Seconds of a call.", 900, ge=30, le=3300)
    chat_idle_s: float = described(
        "Seconds without a message after which a chat ends.", 1800, ge=60, le=86_400
    )
    max_tool_calls: Whole = described("Tool calls of a conversation.", 60, ge=1, le=500)
    tool_timeout_s: float = described("Seconds of a tool's request.", 10, ge=0.5, le=60)
    result_chars: Whole = described(
        "Characters of a tool's result by voice (in chat 16,000).", 4_000, ge=200, le=16_000
    )


@final
class AgentDocument(DocumentPart):
    """One assistant: its model, instructions, tools, graphs and life, for chat and the phone."""

    schema_: str | None = described(
        "Address of this schema, for editors.", None, alias="$schema", max_length=500
    )
    version: Literal["2.0"] = described('Version of this form, as the text "2.0".')
    agent: AgentIdentity = described("Who it is.")
    base_url: str | None = described(
        "Address that {{base_url}} stands for: http or https, without a query.",
        None,
        max_length=500,
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@{}\\]+(/[^\s?#{}\\]*)?$",
    )
    openai: VoiceModel = described(
        "Model of phone calls with `voice.engine` realtime.", default_factory=VoiceModel
    )
    chat: ChatModel = described(
        "Model of chats, and of calls with `voice.engine` text.", default_factory=ChatModel
    )
    session: Annotated[InlineSession | FetchedSession, Field(discriminator="mode")] = described(
        "Instructions and tools."
    )
    graphs: list[Annotated[str, Field(min_length=1, max_length=200)]] = described(
        "Keys of the graphs that it reads.", [], max_length=20
    )
    graph_tools: Literal["all", "none"] | list[Annotated[str, Field(max_length=64)]] = described(
        "Which tools that read graphs it has: all but search_workspace, none or their names.",
        "all",
    )
    permissions: AgentPermissions = described(
        "What it may do to graphs.", default_factory=AgentPermissions
    )
    channels: list[Literal["chat", "voice"]] = described(
        "Where it answers.", ["chat", "voice"], min_length=1, max_length=2
    )
    pre_call_checks: list[PreCallCheck] = described(
        "Requests that may block a conversation.", [], max_length=5
    )
    greeting: Greeting | None = described(
        "How the agent begins; without it the caller speaks first.", None
    )
    lifecycle: Lifecycle = described(
        "What happens at the beginning and the end.", default_factory=Lifecycle
    )
    tools: dict[Name, Handler] = described("The handlers of tools, by name.", {}, max_length=60)
    voice: VoiceOptions = described(
        "Sound, silence and end of calls.", default_factory=VoiceOptions
    )
    secrets: list[SecretUse] = described(
        "Secrets that headers may hold, by name.", [], max_length=50
    )
    limits: ConversationLimits = described(
        "Bounds of what it does.", default_factory=ConversationLimits
    )

    @property
    def uses_chat_model(self) -> bool:
        """Whether the model of chats answers in it, in chats or calls."""
        return "chat" in self.channels or self.voice.engine == "text"

    @property
    def uses_realtime(self) -> bool:
        """Whether a Realtime model answers its calls."""
        return "voice" in self.channels and self.voice.engine == "realtime"


SCHEMA_ID = "nodius-agent/2.0"
_EXAMPLES = Path(__file__).with_name("field_examples.json")
_LEFT_OUT = ("title", "discriminator")


@cache
def agent_schema() -> dict[str, Any]:
    """Return the schema. For reading."""
    schema = cast(dict[str, Any], _closed(AgentDocument.model_json_schema()))
    examples = json.loads(_EXAMPLES.read_text(encoding="utf-8"))
    for part, of in (("AgentDocument", schema), *schema["$defs"].items()):
        for name, shape in of.get("properties", {}).items():
            shape["examples"] = [examples.get(f"{part}.{name}", examples.get(name))]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def _closed(part: Any, *, names_fields: bool = False) -> Any:
    """Return a part without what only OpenAPI reads, closed to names that match no pattern.

    `names_fields`: the members of this part are fields, which may have any name.
    """
    if isinstance(part, list):
        return [_closed(item) for item in cast(list[Any], part)]
    if not isinstance(part, dict):
        return part
    pairs = cast(dict[str, Any], part)
    closed = {
        name: value
        if name in ("default", "examples")
        else _closed(value, names_fields=name in _OF_FIELDS)
        for name, value in pairs.items()
        if names_fields or name not in _LEFT_OUT
    }
    if "patternProperties" in closed and not names_fields:
        closed["additionalProperties"] = False
    return closed


_OF_FIELDS = ("properties", "$defs", "patternProperties")
