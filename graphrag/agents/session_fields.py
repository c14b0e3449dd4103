"""The fields of an agent document about its session: instructions and declared tools,
written or fetched.

From outside: `InlineSession`, `FetchedSession`, `ToolDeclaration`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, final

from pydantic import Field

from graphrag.agents.voice_fields import Name
from tools.http.fetch import Method
from tools.http.json_paths import Path, parse_path
from tools.http.model import (
    CtxName,
    DocumentPart,
    HeaderName,
    JsonPath,
    Parsed,
    Template,
    Templates,
    described,
)
from tools.http.request_url import RequestUrl, parse_url
from tools.http.value_templates import ValueTemplate, parse_template

Instructions = Annotated[ValueTemplate, Parsed(parse_template, least=1, most=32_000)]
MappedPath = Annotated[Path, Parsed(parse_path, least=1)]


SessionUrl = Annotated[RequestUrl, Parsed(parse_url, least=1, most=2_000)]


@final
class ToolDeclaration(DocumentPart):
    """A tool as the model sees it."""

    type: Literal["function"] = described("Always `function`.")
    name: Name = described("Name of a handler in `tools`.")
    description: str = described(
        "When to call it; without it the handler's description.", "", max_length=4_000
    )
    parameters: dict[str, Any] = described(
        "JSON Schema of the arguments: type object, at most 16 kB, 8 levels.",
        {"type": "object", "properties": {}},
    )


Declarations = Annotated[list[ToolDeclaration], Field(max_length=60)]


@final
class InlineSession(DocumentPart):
    """Instructions and tools that stand in the document."""

    mode: Literal["inline"] = described("They stand here.")
    instructions: Instructions = described("System prompt, a template.")
    tools: Declarations = described("The tools that the model may call.", [])


@final
class ResponseMapping(DocumentPart):
    """What is taken out of the fetched session, by JSONPath."""

    instructions: MappedPath = described("System prompt.")
    tools: MappedPath | None = described("Declarations of tools.", None)
    voice: MappedPath | None = described("Voice of this call, before the document's.", None)
    ctx_init: dict[CtxName, JsonPath] = described(
        "Values that the conversation begins with.", {}, max_length=100
    )


@final
class SessionFallback(DocumentPart):
    """What holds when the session cannot be fetched."""

    instructions: Instructions = described("System prompt, a template.")
    tools: Declarations = described("The tools that the model may call.", [])


@final
class FetchedSession(DocumentPart):
    """Instructions and tools that an API gives when a conversation begins (GET)."""

    mode: Literal["config_url"] = described("They are fetched.")
    url: SessionUrl = described("Address, a template.")
    params: Templates = described("Query parameters, templates.", {}, validate_default=True)
    headers: dict[HeaderName, Template] = described(
        "Headers, templates; may hold {{secret.NAME}}.", {}
    )
    response_mapping: ResponseMapping = described("Where the answer holds what.")
    timeout_s: float = described("Seconds to wait.", 4, ge=0.5, le=10)
    fallback: SessionFallback | None = described(
        "Used when fetching fails twice; without it the conversation does not begin.", None
    )

    @property
    def method(self) -> Method:
        return "GET"

    @property
    def body(self) -> None:
        return None
