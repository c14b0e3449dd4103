"""What body builders share: what they get, how they fail, what they look up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, StringConstraints

from tools.http.scope import Scope

OptionPath = Annotated[
    str, StringConstraints(pattern=r"^(ctx|session|args)(\.[\w-]+){1,20}$", max_length=200)
]
"""Where a builder finds something: a path over the conversation's values."""


class BuilderOptions(BaseModel):
    """Base of a builder's options."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a builder gets of the conversation. `now_ms`: milliseconds since 1970."""

    agent: Mapping[str, Any]
    caller_phone: str | None
    call_id: str
    now_ms: int


class BuilderFailed(Exception):
    """A builder cannot make a body of these values; the text is for the model."""


def value_at(path: str, args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any) -> Any:
    """Return the value at an `OptionPath`, None where there is none."""
    segments = tuple(int(word) if word.isdecimal() else word for word in path.split("."))
    return Scope({"args": args, "ctx": ctx, "session": session}).lookup(segments)


def member(value: Any, name: str) -> Any:
    """Return a member of what may be an object, None where there is none."""
    return cast(dict[str, Any], value).get(name) if isinstance(value, dict) else None


def amount(value: Any, name: str) -> Decimal:
    """Return an amount of money exactly. Raises: BuilderFailed."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            exact = Decimal(str(value))
        except InvalidOperation:
            exact = Decimal("NaN")
        if exact.is_finite() and abs(exact) < 10**12:
            return exact
    raise BuilderFailed(f"{name} is not an amount of money")


def number(value: Decimal) -> int | float:
    """Return an amount as it is sent: to two places, whole ones as integers."""
    rounded = value.quantize(Decimal("0.01"))
    return int(rounded) if rounded == int(rounded) else float(rounded)


def customer(args: Mapping[str, Any], ctx: Mapping[str, Any], about: About) -> dict[str, Any]:
    """Return the members that say who asks, and where."""
    phone = args.get("customer_phone")
    return {
        "restaurantId": about.agent.get("id"),
        "callId": ctx.get("call_id"),
        "customerId": ctx.get("customer_id"),
        "customerPhone": about.caller_phone if phone is None else phone,
        "customerName": args.get("customer_name"),
    }
