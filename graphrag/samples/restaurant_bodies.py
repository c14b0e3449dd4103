"""Builds the bodies of a restaurant's orders and reservations: the sample body builders.

`confirm_order` looks up the ordered items in the menu and adds up their prices.
`confirm_reservation` writes the instant of a reservation.

Decision: the samples' code stands here and not in `mock_data`, which is data alone and imports
nothing of ours, while builders are checked by the shapes of `tools.http.builders`. `tools` keeps
the mechanism and knows no builder; the service registers these when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, cast
from zoneinfo import ZoneInfo

from tools.http.builders import (
    About,
    BuilderFailed,
    BuilderOptions,
    OptionPath,
    register_builder,
    value_at,
)
from tools.http.scope import iso_time
from tools.time_zones import TimeZone


def register_sample_builders() -> None:
    """Registers `confirm_order` and `confirm_reservation`. Idempotent.

    Raises: ValueError if another builder has one of the names.
    """
    register_builder("confirm_order", build_order, OrderOptions)
    register_builder("confirm_reservation", build_reservation, ReservationOptions)


def member(value: Any, name: str) -> Any:
    """Returns a member of an object; None if it has none or is no object."""
    return cast(dict[str, Any], value).get(name) if isinstance(value, dict) else None


def amount(value: Any, name: str) -> Decimal:
    """Returns an exact amount of money. Raises: BuilderFailed."""
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            exact = Decimal(str(value))
        except InvalidOperation:
            exact = Decimal("NaN")
        if exact.is_finite() and abs(exact) < 10**12:
            return exact
    raise BuilderFailed(f"{name} is not an amount of money")


def number(value: Decimal) -> int | float:
    """Returns an amount rounded to two decimal places, as an integer if it is whole."""
    rounded = value.quantize(Decimal("0.01"))
    return int(rounded) if rounded == int(rounded) else float(rounded)


def customer(args: Mapping[str, Any], ctx: Mapping[str, Any], about: About) -> dict[str, Any]:
    """Returns the fields of the restaurant, the call and the customer."""
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
    """Paths of the menu (`number -> {id, name}`) and of the last availability check."""

    item_map: OptionPath = "ctx.item_map"
    availability: OptionPath = "ctx.last_availability_check"


def build_order(
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    session: Any,
    options: OrderOptions,
    about: About,
) -> dict[str, Any]:
    """Returns the body of an order. Raises: BuilderFailed for an unknown or incomplete item."""
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
    """Returns an item of the body and its price including extras."""
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
    """Returns a chosen option of an item and its price."""
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
    """Path of the last availability check, and the time zone of `reservation_time`."""

    availability: OptionPath = "ctx.last_availability_check"
    timezone: TimeZone | None = None


def build_reservation(
    args: Mapping[str, Any],
    ctx: Mapping[str, Any],
    session: Any,
    options: ReservationOptions,
    about: About,
) -> dict[str, Any]:
    """Returns the body of a reservation. Raises: BuilderFailed without a time."""
    when = member(value_at(options.availability, args, ctx, session), "estimatedTimeISO")
    if when is None:
        zone = ZoneInfo(options.timezone or str(about.agent.get("timezone") or "UTC"))
        when = next_instant(args.get("reservation_time"), zone, about.now_ms)
    fields = customer(args, ctx, about)
    return {
        "restaurantId": fields["restaurantId"],
        "callId": fields["callId"],
        "customerId": fields["customerId"],
        "customerName": fields["customerName"],
        "customerPhone": fields["customerPhone"],
        "partySize": args.get("party_size"),
        "reservationTime": when,
        "status": "confirmed",
        "seatingPreference": args.get("seating_preference"),
        "notes": args.get("notes"),
    }


def next_instant(clock: Any, zone: ZoneInfo, now_ms: int) -> str:
    """Returns the next instant, in UTC, at which clocks of the zone show `HH:MM`.

    A time skipped by a clock change moves forward by the change. If a time occurs twice, the first
    is used.
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
