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


class DocumentPart(BaseModel):
    """Base of the parts of a document: no unknown field, no silent conversion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RequestParts(DocumentPart):
    """What every request may send besides its address."""

    params: Templates = Field(
        default={},
        description="Query parameters; one that is null is left out, a list repeats its name.",
        examples=[{"phone": "{{caller_phone}}"}],
    )
    headers: dict[str, str] = Field(
        default={},
        description="Headers, the only place for {{secret.NAME}}.",
        examples=[{"Authorization": "Bearer {{secret.API_KEY}}"}],
    )
    body: Templates | None = Field(
        default=None,
        description="Body of the request, sent as JSON; a member that is null is left out. Not with GET.",
        examples=[{"phone": "{{caller_phone}}", "notes": "{{args.notes}}"}],
    )


class RequestFields(RequestParts):
    """One request of the lifecycle; the base of the others that a document names."""

    method: Method = Field(default="POST", description="Method of the request.", examples=["POST"])
    url: str = Field(
        description="Address; its scheme, host and port are literal or {{base_url}}.",
        examples=["{{base_url}}/api/calls"],
    )
    timeout_s: float = Field(
        default=10, ge=0.5, le=30, description="Seconds for the request with its retries.", examples=[10]
    )


class PreStep(RequestParts):
    """One step before the request of a tool: a request, a condition, or both."""

    description: str = Field(default="", max_length=500, description="For people.", examples=["Find it."])
    condition: str | None = Field(
        default=None,
        description="The tool stops where this is true before the request of the step.",
        examples=["pre.target_order.status not in ['pending']"],
    )
    fail_before: str | None = Field(
        default=None, description="Another name of `condition`.", examples=["ctx.order_id == null"]
    )
    method: Method = Field(default="GET", description="Method of the request.", examples=["GET"])
    url: str | None = Field(
        default=None,
        description="Address; without one the step sends nothing.",
        examples=["{{base_url}}/api/orders/status"],
    )
    timeout_s: float | None = Field(
        default=None, ge=0.5, le=60, description="Seconds; default limits.tool_timeout_s.", examples=[5]
    )
    extract: dict[ValueName, str] = Field(
        default={},
        description="Values taken from the answer by JSONPath (the first match), read as pre.NAME.",
        examples=[{"target_order": "$.orders[?(@.orderNumber == {{args.order_number}})]"}],
    )
    fail_if: str | None = Field(
        default=None,
        description="The tool stops where this is true after the values were taken.",
        examples=["target_order == null"],
    )
    fail_return: Any = Field(
        default=None,
        description="What the model gets where the step stops the tool.",
        examples=[{"success": False, "error": "not found"}],
    )

    @property
    def has_fail_return(self) -> bool:
        return "fail_return" in self.model_fields_set


class BuilderChoice(DocumentPart):
    """A body builder and its options."""

    name: str = Field(max_length=64, description="Name of a builder.", examples=["confirm_order"])
    options: dict[str, Any] = Field(
        default={}, description="Options of the builder.", examples=[{"item_map": "ctx.item_map"}]
    )


class Returned(DocumentPart):
    """What the model gets after a success, or after an error."""

    return_: Any = Field(
        default=None,
        alias="return",
        description="Any JSON: a text beginning with $ is looked up in the answer, others are templates.",
        examples=[{"success": True, "order_id": "$.id"}],
    )

    @property
    def has_value(self) -> bool:
        return "return_" in self.model_fields_set


class HttpTool(RequestParts):
    """A tool that sends a request."""

    type: Literal["http"] = Field(description="Kind of the tool.", examples=["http"])
    method: Method = Field(default="GET", description="Method of the request.", examples=["POST"])
    url: str = Field(
        description="Address; its scheme, host and port are literal or {{base_url}}.",
        examples=["{{base_url}}/api/orders/{{args.order_id}}"],
    )
    body_builder: str | BuilderChoice | None = Field(
        default=None, description="Builder of the body; not with `body`.", examples=["confirm_order"]
    )
    pre_steps: list[PreStep] = Field(
        default=[],
        max_length=5,
        description="Steps before the request, in order.",
        examples=[[{"condition": "ctx.order_id == null", "fail_return": {"error": "no order"}}]],
    )
    store_in_ctx: dict[ValueName, str] = Field(
        default={},
        description="Values of the answer, by JSONPath, stored in ctx on success.",
        examples=[{"customer_id": "$.id"}],
    )
    on_success_flags: list[ValueName] = Field(
        default=[], description="Names that become true in ctx on success.", examples=[["order_placed"]]
    )
    on_success: Returned | None = Field(
        default=None,
        description="What the model gets on success; without it, the answer itself.",
        examples=[{"return": {"success": True}}],
    )
    on_error: Returned | None = Field(
        default=None,
        description="What the model gets on an error; without it, the standard error.",
        examples=[{"return": {"success": False, "error": "{{error}}"}}],
    )
    success_if: str | None = Field(
        default=None,
        description="What has to be true besides status 2xx: an expression over $ and status.",
        examples=["$.accepted == true"],
    )
    timeout_s: float | None = Field(
        default=None, ge=0.5, le=60, description="Seconds; default limits.tool_timeout_s.", examples=[10]
    )
    retries: Whole = Field(default=1, ge=0, le=2, description="Further attempts.", examples=[1])
    delayed_message: Annotated[str, Field(max_length=200)] | Literal[False] | None = Field(
        default=None,
        description="Said by voice when the tool takes long; false: nothing.",
        examples=["One moment, please."],
    )
    description: str = Field(
        default="",
        max_length=2_000,
        description="Used where the declaration has none.",
        examples=["Looks up an order."],
    )


class BuiltinTool(DocumentPart):
    """A tool of the service itself."""

    type: Literal["builtin"] = Field(description="Kind of the tool.", examples=["builtin"])
    action: Literal["hangup", "transfer"] = Field(description="What it does.", examples=["hangup"])
    description: str = Field(
        default="",
        max_length=2_000,
        description="Used where the declaration has none.",
        examples=["Ends the call."],
    )
