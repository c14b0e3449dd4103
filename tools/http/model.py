"""The schema of HTTP tools in an agent document: tools, steps and requests. Templates, conditions
and paths are parsed during validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
)
from pydantic_core import core_schema

from tools.http.expressions import Expression, parse_expression
from tools.http.fetch import Method
from tools.http.json_paths import Path, parse_path
from tools.http.problems import BadText
from tools.http.request_url import RequestUrl, parse_url
from tools.http.value_templates import ValueTemplate, parse_template
from tools.http.value_tree import ValueTree, parse_return, parse_tree

RESERVED_CTX = frozenset(
    (
        *(
            "caller_phone",
            "agent_id",
            "call_start",
            "had_conversation",
            "should_hangup",
            "transcript",
        ),
        *("transfer_destination", "transfer_summary", "transfer_status", "transfer_answered"),
    )
)
"""Names in ctx that the service sets itself."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_OURS = frozenset(("host", "content-length", "transfer-encoding", "connection"))


@dataclass(frozen=True, slots=True)
class Parsed:
    """Field annotation: the input has the type `written`, and the value is the result of `parse`.

    `least` and `most` limit the length of the input.
    """

    parse: Callable[[Any], Any]
    written: Any = str
    least: int | None = None
    most: int | None = None

    def __get_pydantic_core_schema__(
        self, _source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        bounds = Field(min_length=self.least, max_length=self.most)
        written = handler.generate_schema(Annotated[self.written, bounds])
        return core_schema.no_info_after_validator_function(self.parse, written)


def _header_name(name: str) -> str:
    if _HEADER.match(name) is None or name.casefold() in _OURS:
        what = f"a document cannot set the header {name[:60]!r}"
        raise BadText("bad_name", what, allowed="a header's name")
    return name


def _unreserved(name: str) -> str:
    if name in RESERVED_CTX:
        raise BadText("reserved_name", f"{name} is set by the service")
    return name


ValueName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
CtxName = Annotated[ValueName, AfterValidator(_unreserved)]
"""The name under which a document stores something in ctx."""
Template = Annotated[ValueTemplate, Parsed(parse_template)]
Condition = Annotated[Expression, Parsed(parse_expression)]
JsonPath = Annotated[Path, Parsed(parse_path)]
Url = Annotated[RequestUrl, Parsed(parse_url)]
Templates = Annotated[ValueTree, Parsed(parse_tree, dict[str, Any])]
HeaderName = Annotated[str, AfterValidator(_header_name)]


def whole(value: Any) -> Any:
    """Returns 1.0 as 1, since JSON Schema treats it as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]


def described(about: str, default: Any = ..., **bounds: Any) -> Any:
    """Returns a field with a description. It is required if there is no default."""
    given = {} if default is ... else {"default": default}
    return Field(description=about, **given, **bounds)


class DocumentPart(BaseModel):
    """Base of the parts of a document: without unknown fields or type conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RequestParts(DocumentPart):
    """Parameters, headers and body of a request."""

    params: Templates = described(
        "Query parameters; one that is null is left out, a list repeats its name.",
        {},
        validate_default=True,
    )
    headers: dict[HeaderName, Template] = described(
        "Headers, the only place for {{secret.NAME}}.", {}
    )
    body: Templates | None = described(
        "Body of the request, sent as JSON; a member that is null is left out. Not with GET.", None
    )


class RequestFields(RequestParts):
    """One request of the lifecycle, and base of the other requests in a document."""

    method: Method = described("Method of the request.", "POST")
    url: Url = described("Address; its scheme, host and port are literal or {{base_url}}.")
    timeout_s: float = described("Seconds for the request with its retries.", 10, ge=0.5, le=30)


class PreStep(RequestParts):
    """One step before the request of a tool: a request, a condition, or both."""

    description: str = described("For people.", "", max_length=500)
    condition: Condition | None = described(
        "The tool stops where this is true before the request of the step.", None
    )
    fail_before: Condition | None = described("Another name of `condition`.", None)
    method: Method = described("Method of the request.", "GET")
    url: Url | None = described("Address; without one the step sends nothing.", None)
    timeout_s: float | None = described(
        "Seconds; default limits.tool_timeout_s.", None, ge=0.5, le=60
    )
    extract: dict[ValueName, JsonPath] = described(
        "Values taken from the answer by JSONPath (the first match), read as pre.NAME.", {}
    )
    fail_if: Condition | None = described(
        "The tool stops where this is true after the values were taken.", None
    )
    fail_return: Annotated[Any, Parsed(parse_tree, Any)] = described(
        "What the model gets where the step stops the tool.", None
    )

    @property
    def stops_before(self) -> Expression | None:
        """The condition that, if true before the step's request, stops the tool."""
        return self.fail_before if self.condition is None else self.condition


class BuilderChoice(DocumentPart):
    """A body builder and its options."""

    name: str = described("Name of a builder.", max_length=64)
    options: dict[str, Any] = described("Options of the builder.", {})


class Returned(DocumentPart):
    """The result for the model after a success or an error."""

    return_: Annotated[Any, Parsed(parse_return, Any)] = described(
        "Any JSON: a text beginning with $ is looked up in the answer, others are templates.",
        None,
        alias="return",
    )


class HttpTool(RequestParts):
    """A tool that sends a request."""

    type: Literal["http"] = described("Kind of the tool.")
    method: Method = described("Method of the request.", "GET")
    url: Url = described("Address; its scheme, host and port are literal or {{base_url}}.")
    body_builder: str | BuilderChoice | None = described(
        "Builder of the body; not with `body`.", None
    )
    pre_steps: list[PreStep] = described("Steps before the request, in order.", [], max_length=5)
    store_in_ctx: dict[CtxName, JsonPath] = described(
        "Values of the answer, by JSONPath, stored in ctx on success.", {}
    )
    on_success_flags: list[CtxName] = described("Names that become true in ctx on success.", [])
    on_success: Returned | None = described(
        "What the model gets on success; without it, the answer itself.", None
    )
    on_error: Returned | None = described(
        "What the model gets on an error; without it, the standard error.", None
    )
    success_if: Condition | None = described(
        "What has to be true besides status 2xx: an expression over $ and status.", None
    )
    timeout_s: float | None = described(
        "Seconds; default limits.tool_timeout_s.", None, ge=0.5, le=60
    )
    retries: Whole = described("Further attempts.", 1, ge=0, le=2)
    delayed_message: Annotated[str, Field(max_length=200)] | Literal[False] | None = described(
        "Said by voice when the tool takes long; false: nothing.", None
    )
    description: str = described("Used where the declaration has none.", "", max_length=2_000)


class BuiltinTool(DocumentPart):
    """A tool of the service itself."""

    type: Literal["builtin"] = described("Kind of the tool.")
    action: Literal["hangup", "transfer"] = described("What it does.")
    description: str = described("Used where the declaration has none.", "", max_length=2_000)
    on_success_flags: list[CtxName] = described(
        "Names that become true in ctx when it is called.", []
    )


class RequestLike(Protocol):
    """The common fields of all requests in a document."""

    @property
    def method(self) -> Method: ...
    @property
    def url(self) -> RequestUrl | None: ...
    @property
    def params(self) -> ValueTree: ...
    @property
    def headers(self) -> Mapping[str, ValueTemplate]: ...
    @property
    def body(self) -> ValueTree | None: ...
    @property
    def timeout_s(self) -> float | None: ...
