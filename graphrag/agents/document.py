"""The agent document: what an agent is made of, every field with its default, bounds and an example.

From outside: `AgentDocument` and its parts.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from graphrag.agents.session_fields import FetchedSession, InlineSession
from graphrag.agents.voice_fields import Name, VoiceModel, VoiceOptions
from tools.http.model import BuiltinTool, DocumentPart, HttpTool, RequestFields, ValueName, Whole

HostPattern = Annotated[
    str, Field(max_length=260, pattern=r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$")
]
Handler = Annotated[HttpTool | BuiltinTool, Field(discriminator="type")]


class AgentIdentity(DocumentPart):
    """Who the agent is."""

    id: str = Field(
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$",
        description="Id, unique in the workspace.",
        examples=["helpdesk"],
    )
    name: str = Field(min_length=1, max_length=120, description="Name for people.", examples=["Helpdesk"])
    type: str = Field(
        default="general",
        min_length=1,
        max_length=40,
        description="Kind of agent, for logs and metrics.",
        examples=["restaurant"],
    )
    description: str = Field(
        default="", max_length=500, description="What it is for.", examples=["Answers about our workflows."]
    )
    language: str | None = Field(
        default=None,
        pattern="^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$",
        description="Language (BCP-47); without it the service's.",
        examples=["fr"],
    )
    timezone: str | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="Time zone (IANA); without it the service's.",
        examples=["Europe/Paris"],
    )


class ChatModel(DocumentPart):
    """The model of chats."""

    provider: str | None = Field(
        default=None,
        min_length=1,
        max_length=40,
        description="Whose model answers; without it the service's.",
        examples=["openai"],
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="Name of the model; without it the provider's.",
        examples=["gpt-5-mini"],
    )
    temperature: float | None = Field(
        default=None, ge=0, le=2, description="Sampling temperature.", examples=[0.3]
    )
    max_rounds: Whole = Field(
        default=5, ge=1, le=10, description="Rounds of tool calls for one message.", examples=[8]
    )
    opening: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000,
        description="Shown before the first message, as it stands.",
        examples=["Hello! What can I look up for you?"],
    )


class AgentPermissions(DocumentPart):
    """What the agent may do to graphs."""

    propose: bool = Field(
        default=False, description="It may propose changes, which people decide.", examples=[True]
    )
    role: Literal["viewer", "editor"] = Field(
        default="viewer",
        description="Its role, editor for `propose`; in chat the lesser of this and the person's.",
        examples=["editor"],
    )


class PreCallCheck(RequestFields):
    """A request that may block a conversation before it begins."""

    name: str = Field(
        min_length=1, max_length=80, description="Name of the check.", examples=["blocked_phone"]
    )
    method: Literal["GET", "POST"] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default="GET", description="Method of the request.", examples=["POST"]
    )
    block_if: str = Field(
        min_length=1,
        max_length=1_000,
        description="Expression over the answer (`$`); true blocks.",
        examples=["$.blocked == true"],
    )
    on_block: Literal["hangup", "message"] = Field(
        description="End at once, or say `message` first.", examples=["hangup"]
    )
    message: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        description="Template of what is said; required for `on_block: message`.",
        examples=["We cannot take your call."],
    )
    on_error: Literal["allow", "block"] = Field(
        default="allow", description="What a failed request means.", examples=["block"]
    )
    timeout_s: float = Field(default=3, ge=0.5, le=5, description="Seconds to wait.", examples=[2])


class Greeting(DocumentPart):
    """What the model is asked to greet with. One of the two texts is required."""

    known_customer: str | None = Field(
        default=None,
        min_length=1,
        max_length=4_000,
        description="Template for a caller who is known.",
        examples=["{{session.customer.name}} calls. Greet them by name."],
    )
    unknown_customer: str | None = Field(
        default=None,
        min_length=1,
        max_length=4_000,
        description="Template for any other caller.",
        examples=["Somebody calls. Greet them and ask what they need."],
    )
    condition_field: str | None = Field(
        default=None,
        max_length=500,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)*$",
        description='The caller is known where this value is neither null nor "".',
        examples=["session.customer.name"],
    )
    interruptible: bool = Field(default=True, description="The caller may interrupt it.", examples=[False])


class StartRequest(RequestFields):
    """The request when a conversation has begun."""

    store_in_ctx: dict[ValueName, str] = Field(
        default={},
        max_length=50,
        description="Values of the answer, by JSONPath, stored in ctx.",
        examples=[{"call_id": "$.id"}],
    )


class NoActionRequest(StartRequest):
    """The request at the end of a conversation in which nothing was done."""

    condition: str = Field(
        min_length=1,
        max_length=1_000,
        description="Expression; the request is made where it is true.",
        examples=["not ctx.order_placed and ctx.had_conversation"],
    )
    description: str = Field(
        default="", max_length=500, description="For people.", examples=["Leaves a note for the team."]
    )


class OutcomeRule(DocumentPart):
    """One rule of how a conversation ended; the first whose flag is true gives the outcome."""

    flag: ValueName | None = Field(
        default=None, description="Flag in ctx, or null: always.", examples=["order_placed"]
    )
    outcome: str = Field(min_length=1, max_length=60, description="The outcome.", examples=["ordered"])
    priority: Whole | None = Field(
        default=None,
        description="Lower ones come first; without it the rule's position.",
        examples=[1],
    )


class Lifecycle(DocumentPart):
    """Requests at the beginning and end of a conversation, and how its outcome is found."""

    on_start: StartRequest | None = Field(
        default=None,
        description="Sent when a conversation has begun.",
        examples=[{"url": "{{base_url}}/api/calls", "body": {"startedAt": "{{now_iso}}"}}],
    )
    on_no_action: NoActionRequest | None = Field(
        default=None,
        description="Sent at the end where its condition is true.",
        examples=[{"condition": "not ctx.order_placed", "url": "{{base_url}}/api/messages"}],
    )
    on_end: RequestFields | None = Field(
        default=None,
        description="Sent last.",
        examples=[{"method": "PATCH", "url": "{{base_url}}/api/calls", "body": {"outcome": "{{outcome}}"}}],
    )
    outcome_rules: list[OutcomeRule] = Field(
        default=[],
        max_length=50,
        description="How the outcome is found.",
        examples=[[{"flag": "order_placed", "outcome": "ordered"}, {"flag": None, "outcome": "nothing"}]],
    )


class SecretUse(DocumentPart):
    """A secret that headers may hold; its value is configured where the service runs."""

    name: str = Field(
        pattern="^[A-Za-z_][A-Za-z0-9_]{0,63}$", description="Name of the secret.", examples=["API_KEY"]
    )
    hosts: list[HostPattern] = Field(
        min_length=1,
        max_length=20,
        description="The only hosts that get it, as api.example.com, *.example.com or api.example.com:8443.",
        examples=[["api.example.com"]],
    )


class ConversationLimits(DocumentPart):
    """Bounds of what an agent does."""

    max_calls: Whole = Field(default=10, ge=1, le=1000, description="Calls at once.", examples=[20])
    max_call_s: float = Field(default=900, ge=30, le=3300, description="Seconds of a call.", examples=[600])
    chat_idle_s: float = Field(
        default=1800,
        ge=60,
        le=86_400,
        description="Seconds without a message after which a chat ends.",
        examples=[3600],
    )
    max_tool_calls: Whole = Field(
        default=60, ge=1, le=500, description="Tool calls of a conversation.", examples=[30]
    )
    tool_timeout_s: float = Field(
        default=10, ge=0.5, le=60, description="Seconds of a tool's request.", examples=[5]
    )
    result_chars: Whole = Field(
        default=4_000,
        ge=200,
        le=16_000,
        description="Characters of a tool's result by voice (in chat 16,000).",
        examples=[2_000],
    )


class AgentDocument(DocumentPart):
    """One assistant: its model, instructions, tools, graphs and life, for chat and the phone."""

    schema_: str | None = Field(
        default=None,
        alias="$schema",
        max_length=500,
        description="Address of this schema, for editors.",
        examples=["nodius-agent.json"],
    )
    version: Literal["2.0"] = Field(description='Version of this form, as the text "2.0".', examples=["2.0"])
    agent: AgentIdentity = Field(
        description="Who it is.", examples=[{"id": "helpdesk", "name": "Workflow helpdesk"}]
    )
    base_url: str | None = Field(
        default=None,
        max_length=500,
        pattern=r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#@{}\\]+(/[^\s?#{}\\]*)?$",
        description="Address that {{base_url}} stands for: http or https, without a query.",
        examples=["https://api.example.com"],
    )
    openai: VoiceModel = Field(
        default_factory=VoiceModel, description="Model of phone calls.", examples=[{"voice": "cedar"}]
    )
    chat: ChatModel = Field(
        default_factory=ChatModel, description="Model of chats.", examples=[{"max_rounds": 8}]
    )
    session: Annotated[InlineSession | FetchedSession, Field(discriminator="mode")] = Field(
        description="Instructions and tools.",
        examples=[{"mode": "inline", "instructions": "You answer questions about orders."}],
    )
    graphs: list[Annotated[str, Field(min_length=1, max_length=200)]] = Field(
        default=[], max_length=20, description="Keys of the graphs that it reads.", examples=[["nba"]]
    )
    graph_tools: Literal["all", "none"] | list[Annotated[str, Field(max_length=64)]] = Field(
        default="all",
        description="Which tools that read graphs it has: all, none or their names.",
        examples=[["search_nodes", "read_node_detail"]],
    )
    permissions: AgentPermissions = Field(
        default_factory=AgentPermissions,
        description="What it may do to graphs.",
        examples=[{"propose": True, "role": "editor"}],
    )
    channels: list[Literal["chat", "voice"]] = Field(
        default=["chat", "voice"],
        min_length=1,
        max_length=2,
        description="Where it answers.",
        examples=[["chat"]],
    )
    pre_call_checks: list[PreCallCheck] = Field(
        default=[],
        max_length=5,
        description="Requests that may block a conversation.",
        examples=[
            [
                {
                    "name": "blocked",
                    "url": "{{base_url}}/api/blocked",
                    "block_if": "$.blocked == true",
                    "on_block": "hangup",
                }
            ]
        ],
    )
    greeting: Greeting | None = Field(
        default=None,
        description="How the agent begins; without it the caller speaks first.",
        examples=[{"unknown_customer": "Somebody calls. Greet them and ask what they need."}],
    )
    lifecycle: Lifecycle = Field(
        default_factory=Lifecycle,
        description="What happens at the beginning and the end.",
        examples=[{"outcome_rules": [{"flag": None, "outcome": "answered"}]}],
    )
    tools: dict[Name, Handler] = Field(
        default={},
        max_length=60,
        description="The handlers of tools, by name.",
        examples=[{"order_status": {"type": "http", "url": "{{base_url}}/api/orders/{{args.number}}"}}],
    )
    voice: VoiceOptions = Field(
        default_factory=VoiceOptions,
        description="Sound, silence and end of calls.",
        examples=[{"silence_s": 15}],
    )
    secrets: list[SecretUse] = Field(
        default=[],
        max_length=50,
        description="Secrets that headers may hold, by name.",
        examples=[[{"name": "API_KEY", "hosts": ["api.example.com"]}]],
    )
    limits: ConversationLimits = Field(
        default_factory=ConversationLimits,
        description="Bounds of what it does.",
        examples=[{"max_tool_calls": 30}],
    )
