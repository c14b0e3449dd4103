"""The fields of an agent document about its session: instructions and declared tools, written or fetched.

From outside: `InlineSession`, `FetchedSession`, `ToolDeclaration`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graphrag.agents.voice_fields import Name
from tools.http.model import DocumentPart, Method, ValueName

Instructions = Annotated[str, Field(min_length=1, max_length=32_000)]


class ToolDeclaration(DocumentPart):
    """A tool as the model sees it."""

    type: Literal["function"] = Field(description="Always `function`.", examples=["function"])
    name: Name = Field(description="Name of a handler in `tools`.", examples=["order_status"])
    description: str = Field(
        default="",
        max_length=4_000,
        description="When to call it; without it the handler's description.",
        examples=["Looks up an order by its number."],
    )
    parameters: dict[str, Any] = Field(
        default={"type": "object", "properties": {}},
        description="JSON Schema of the arguments: type object, at most 16 kB, 8 levels.",
        examples=[{"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}],
    )


Declarations = Annotated[list[ToolDeclaration], Field(max_length=60)]


class InlineSession(DocumentPart):
    """Instructions and tools that stand in the document."""

    mode: Literal["inline"] = Field(description="They stand here.", examples=["inline"])
    instructions: Instructions = Field(
        description="System prompt, a template.", examples=["You answer questions about orders."]
    )
    tools: Declarations = Field(
        default=[],
        description="The tools that the model may call.",
        examples=[[{"type": "function", "name": "order_status"}]],
    )


class ResponseMapping(DocumentPart):
    """What is taken out of the fetched session, by JSONPath."""

    instructions: str = Field(min_length=1, description="System prompt.", examples=["$.systemPrompt"])
    tools: str | None = Field(
        default=None, min_length=1, description="Declarations of tools.", examples=["$.tools"]
    )
    voice: str | None = Field(
        default=None,
        min_length=1,
        description="Voice of this call, before the document's.",
        examples=["$.voice"],
    )
    ctx_init: dict[ValueName, str] = Field(
        default={},
        max_length=100,
        description="Values that the conversation begins with.",
        examples=[{"customer_id": "$.customer.id"}],
    )


class SessionFallback(DocumentPart):
    """What holds when the session cannot be fetched."""

    instructions: Instructions = Field(
        description="System prompt, a template.", examples=["Take a message; our system is down."]
    )
    tools: Declarations = Field(default=[], description="The tools that the model may call.", examples=[[]])


class FetchedSession(DocumentPart):
    """Instructions and tools that an API gives when a conversation begins (GET)."""

    mode: Literal["config_url"] = Field(description="They are fetched.", examples=["config_url"])
    url: str = Field(
        min_length=1, max_length=2_000, description="Address, a template.", examples=["{{base_url}}/api/ai"]
    )
    params: dict[str, Any] = Field(
        default={}, description="Query parameters, templates.", examples=[{"phone": "{{caller_phone}}"}]
    )
    headers: dict[str, str] = Field(
        default={},
        description="Headers, templates; may hold {{secret.NAME}}.",
        examples=[{"Authorization": "Bearer {{secret.API_KEY}}"}],
    )
    response_mapping: ResponseMapping = Field(
        description="Where the answer holds what.", examples=[{"instructions": "$.systemPrompt"}]
    )
    timeout_s: float = Field(default=4, ge=0.5, le=10, description="Seconds to wait.", examples=[3])
    fallback: SessionFallback | None = Field(
        default=None,
        description="Used when fetching fails twice; without it the conversation does not begin.",
        examples=[{"instructions": "Take a message; our system is down."}],
    )

    @property
    def method(self) -> Method:
        return "GET"

    @property
    def body(self) -> None:
        return None
