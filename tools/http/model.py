"""How an agent document writes an HTTP tool, its steps and its requests; parses no template."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Templates = dict[str, Any]
ValueName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


def whole(value: Any) -> Any:
    """Return 1.0 as 1, as JSON Schema takes it."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(whole)]


def described(about: str, example: Any, **more: Any) -> Any:
    """Return a document's field with its description and an example; `more`: its default and bounds."""
    return Field(description=about, examples=[example], **more)


class DocumentPart(BaseModel):
    """Base of the parts of a document: no unknown field, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RequestParts(DocumentPart):
    """What every request may send besides its address."""

    params: Templates = described(
        "Query parameters; one that is null is left out, a list repeats its name.",
        {"phone": "{{caller_phone}}"},
        default={},
    )
    headers: dict[str, str] = described(
        "Headers, the only place for {{secret.NAME}}.",
        {"Authorization": "Bearer {{secret.API_KEY}}"},
        default={},
    )
    body: Templates | None = described(
        "Body of the request, sent as JSON; a member that is null is left out. Not with GET.",
        {"phone": "{{caller_phone}}", "notes": "{{args.notes}}"},
        default=None,
    )


class RequestFields(RequestParts):
    """One request of the lifecycle; the base of the others that a document names."""

    method: Method = described("Method of the request.", "POST", default="POST")
    url: str = described(
        "Address; its scheme, host and port are literal or {{base_url}}.", "{{base_url}}/api/calls"
    )
    timeout_s: float = described("Seconds for the request with its retries.", 10, default=10, ge=0.5, le=30)


class PreStep(RequestParts):
    """One step before the request of a tool: a request, a condition, or both."""

    description: str = described("For people.", "Find it.", default="", max_length=500)
    condition: str | None = described(
        "The tool stops where this is true before the request of the step.",
        "pre.target_order.status not in ['pending']",
        default=None,
    )
    fail_before: str | None = described("Another name of `condition`.", "ctx.order_id == null", default=None)
    method: Method = described("Method of the request.", "GET", default="GET")
    url: str | None = described(
        "Address; without one the step sends nothing.", "{{base_url}}/api/orders/status", default=None
    )
    timeout_s: float | None = described(
        "Seconds; default limits.tool_timeout_s.", 5, default=None, ge=0.5, le=60
    )
    extract: dict[ValueName, str] = described(
        "Values taken from the answer by JSONPath (the first match), read as pre.NAME.",
        {"target_order": "$.orders[?(@.orderNumber == {{args.order_number}})]"},
        default={},
    )
    fail_if: str | None = described(
        "The tool stops where this is true after the values were taken.", "target_order == null", default=None
    )
    fail_return: Any = described(
        "What the model gets where the step stops the tool.",
        {"success": False, "error": "not found"},
        default=None,
    )

    @property
    def has_fail_return(self) -> bool:
        return "fail_return" in self.model_fields_set


class BuilderChoice(DocumentPart):
    """A body builder and its options."""

    name: str = described("Name of a builder.", "confirm_order", max_length=64)
    options: dict[str, Any] = described("Options of the builder.", {"item_map": "ctx.item_map"}, default={})


class Returned(DocumentPart):
    """What the model gets after a success, or after an error."""

    return_: Any = described(
        "Any JSON: a text beginning with $ is looked up in the answer, others are templates.",
        {"success": True, "order_id": "$.id"},
        default=None,
        alias="return",
    )

    @property
    def has_value(self) -> bool:
        return "return_" in self.model_fields_set


class HttpTool(RequestParts):
    """A tool that sends a request."""

    type: Literal["http"] = described("Kind of the tool.", "http")
    method: Method = described("Method of the request.", "POST", default="GET")
    url: str = described(
        "Address; its scheme, host and port are literal or {{base_url}}.",
        "{{base_url}}/api/orders/{{args.order_id}}",
    )
    body_builder: str | BuilderChoice | None = described(
        "Builder of the body; not with `body`.", "confirm_order", default=None
    )
    pre_steps: list[PreStep] = described(
        "Steps before the request, in order.",
        [{"condition": "ctx.order_id == null", "fail_return": {"error": "no order"}}],
        default=[],
        max_length=5,
    )
    store_in_ctx: dict[ValueName, str] = described(
        "Values of the answer, by JSONPath, stored in ctx on success.", {"customer_id": "$.id"}, default={}
    )
    on_success_flags: list[ValueName] = described(
        "Names that become true in ctx on success.", ["order_placed"], default=[]
    )
    on_success: Returned | None = described(
        "What the model gets on success; without it, the answer itself.",
        {"return": {"success": True}},
        default=None,
    )
    on_error: Returned | None = described(
        "What the model gets on an error; without it, the standard error.",
        {"return": {"success": False, "error": "{{error}}"}},
        default=None,
    )
    success_if: str | None = described(
        "What has to be true besides status 2xx: an expression over $ and status.",
        "$.accepted == true",
        default=None,
    )
    timeout_s: float | None = described(
        "Seconds; default limits.tool_timeout_s.", 10, default=None, ge=0.5, le=60
    )
    retries: Whole = described("Further attempts.", 1, default=1, ge=0, le=2)
    delayed_message: Annotated[str, Field(max_length=200)] | Literal[False] | None = described(
        "Said by voice when the tool takes long; false: nothing.", "One moment, please.", default=None
    )
    description: str = described(
        "Used where the declaration has none.", "Looks up an order.", default="", max_length=2_000
    )


class BuiltinTool(DocumentPart):
    """A tool of the service itself."""

    type: Literal["builtin"] = described("Kind of the tool.", "builtin")
    action: Literal["hangup", "transfer"] = described("What it does.", "hangup")
    description: str = described(
        "Used where the declaration has none.", "Ends the call.", default="", max_length=2_000
    )
