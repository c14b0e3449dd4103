"""The body builders that come with the service, and what all builders share.

`confirm_order`: an order's items, looked up and added up. `confirm_reservation`: a table, and the
instant it is reserved for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, StringConstraints

from tools.http.scope import Scope, iso_time
from tools.time_zones import TimeZone

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


_MINUTE_MS = 60_000
_YEAR_MIN = 366 * 24 * 60


class OrderOptions(BuilderOptions):
    """Where the menu (`number -> {id, name}`) and the last check of availability are found."""

    item_map: OptionPath = "ctx.item_map"
    availability: OptionPath = "ctx.last_availability_check"


def build_order(
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    session: Any,
    options: OrderOptions,
    about: About,
) -> dict[str, Any]:
    """Return the body of an order. Raises: BuilderFailed where an item is unknown or incomplete."""
    menu = value_at(options.item_map, args, ctx, session)
    availability = value_at(options.availability, args, ctx, session)
    ordered = _objects(args.get("items"), "items")
    if not ordered:
        raise BuilderFailed("items is empty")
    items: list[dict[str, Any]] = []
    total = _delivery_fee(args, availability)
    for index, item in enumerate(ordered):
        built, price = _item(item, f"items.{index}", menu)
        items.append(built)
        total += price
    if args.get("total") is not None:
        total = amount(args["total"], "total")
    return {
        **customer(args, ctx, about),
        "total": number(total),
        "orderType": args.get("order_type"),
        "estimatedReadyAt": _ready_at(ctx, availability, about),
        "deliveryAddress": args.get("delivery_address"),
        "deliveryCity": args.get("delivery_city"),
        "deliveryPostalCode": args.get("delivery_postal_code"),
        "notes": args.get("notes"),
        "items": items,
    }


def _item(item: Mapping[str, Any], where: str, menu: Any) -> tuple[dict[str, Any], Decimal]:
    """Return one item of the body, and its price with the extras."""
    entry = _entry(menu, item.get("id"), f"{where}.id")
    quantity = item.get("quantity")
    price = amount(item.get("unit_price"), f"{where}.unit_price")
    if (
        isinstance(quantity, bool)
        or not isinstance(quantity, int | float)
        or quantity != int(quantity)
    ):
        raise BuilderFailed(f"{where}.quantity is not a whole number")
    quantity = int(quantity)
    if not 1 <= quantity <= 10_000:
        raise BuilderFailed(f"{where}.quantity is not between 1 and 10000")
    options = _objects(item.get("selected_options"), f"{where}.selected_options")
    chosen = [
        _option(option, f"{where}.selected_options.{index}", menu)
        for index, option in enumerate(options)
    ]
    extras = sum((paid for _, paid in chosen), Decimal(0))
    return {
        "menuItemId": member(entry, "id"),
        "name": member(entry, "name"),
        "quantity": quantity,
        "unitPrice": number(price),
        "totalPrice": number(price * quantity),
        "selectedOptions": [option for option, _ in chosen],
    }, (price + extras) * quantity


def _option(option: Mapping[str, Any], where: str, menu: Any) -> tuple[dict[str, Any], Decimal]:
    """Return one chosen option of an item, and what it costs."""
    choice_id = option.get("choice_id")
    extra = option.get("extra_price")
    choice = option.get("choice")
    if choice_id is not None:
        choice = member(_entry(menu, choice_id, f"{where}.choice_id"), "name")
    paid = None if extra is None else amount(extra, f"{where}.extra_price")
    shown = {"name": option.get("name"), "choice": choice}
    return {**shown, "extra_price": None if paid is None else number(paid)}, paid or Decimal(0)


def _entry(menu: Any, key: Any, where: str) -> Any:
    if isinstance(key, float) and key.is_integer():
        key = int(key)
    entry = member(menu, str(key))
    if isinstance(key, bool) or not isinstance(entry, dict):
        raise BuilderFailed(f"{where}: no item {str(key)[:40]!r} in the menu")
    return cast(dict[str, Any], entry)


def _objects(value: Any, where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(
        isinstance(item, dict) for item in cast(list[Any], value)
    ):
        raise BuilderFailed(f"{where} is not a list of objects")
    return cast(list[dict[str, Any]], value)


def _delivery_fee(args: Mapping[str, Any], availability: Any) -> Decimal:
    fee = member(availability, "deliveryFee") if args.get("order_type") == "delivery" else None
    return Decimal(0) if fee is None else amount(fee, "deliveryFee")


def _ready_at(ctx: Mapping[str, Any], availability: Any, about: About) -> Any:
    estimated = member(availability, "estimatedTimeISO")
    if estimated is not None:
        return estimated
    minutes = ctx.get("avg_prep_time_min")
    if (
        isinstance(minutes, bool)
        or not isinstance(minutes, int | float)
        or not 0 <= minutes <= _YEAR_MIN
    ):
        return None
    return iso_time(about.now_ms + int(minutes * _MINUTE_MS))


_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class ReservationOptions(BuilderOptions):
    """Where the last check of availability is found, and in which zone a time of day is meant."""

    availability: OptionPath = "ctx.last_availability_check"
    timezone: TimeZone | None = None


def build_reservation(
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    session: Any,
    options: ReservationOptions,
    about: About,
) -> dict[str, Any]:
    """Return the body of a reservation. Raises: BuilderFailed where no time is known."""
    when = member(value_at(options.availability, args, ctx, session), "estimatedTimeISO")
    if when is None:
        zone = ZoneInfo(options.timezone or str(about.agent.get("timezone") or "UTC"))
        when = next_instant(args.get("reservation_time"), zone, about.now_ms)
    who = customer(args, ctx, about)
    return {
        "restaurantId": who["restaurantId"],
        "callId": who["callId"],
        "customerId": who["customerId"],
        "customerName": who["customerName"],
        "customerPhone": who["customerPhone"],
        "partySize": args.get("party_size"),
        "reservationTime": when,
        "status": "confirmed",
        "seatingPreference": args.get("seating_preference"),
        "notes": args.get("notes"),
    }


def next_instant(clock: Any, zone: ZoneInfo, now_ms: int) -> str:
    """Return the next instant at which clocks of the zone show `HH:MM`, in UTC.

    A time that a clock change skips moves forward by the change; one that comes twice is the first.
    Raises: BuilderFailed.
    """
    match = _CLOCK.fullmatch(clock) if isinstance(clock, str) else None
    if match is None:
        raise BuilderFailed("reservation_time is not a time of day as 20:00")
    shown = time(int(match[1]), int(match[2]))
    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    day = now.astimezone(zone).date()
    instant = datetime.combine(day, shown, zone).astimezone(UTC)
    if instant < now:
        instant = datetime.combine(day + timedelta(days=1), shown, zone).astimezone(UTC)
    return iso_time(int(instant.timestamp()) * 1000)
