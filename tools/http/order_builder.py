"""The body builder `confirm_order`: an order's items, looked up and added up."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from tools.http.builder_parts import (
    About,
    BuilderFailed,
    BuilderOptions,
    OptionPath,
    amount,
    customer,
    member,
    number,
    value_at,
)
from tools.http.scope import iso_time

_MINUTE_MS = 60_000
_YEAR_MIN = 366 * 24 * 60


class OrderOptions(BuilderOptions):
    """Where the menu (`number -> {id, name}`) and the last check of availability are found."""

    item_map: OptionPath = "ctx.item_map"
    availability: OptionPath = "ctx.last_availability_check"


def build_order(
    args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any, options: OrderOptions, about: About
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
    quantity, price = item.get("quantity"), amount(item.get("unit_price"), f"{where}.unit_price")
    if isinstance(quantity, bool) or not isinstance(quantity, int | float) or quantity != int(quantity):
        raise BuilderFailed(f"{where}.quantity is not a whole number")
    quantity = int(quantity)
    if not 1 <= quantity <= 10_000:
        raise BuilderFailed(f"{where}.quantity is not between 1 and 10000")
    options = _objects(item.get("selected_options"), f"{where}.selected_options")
    chosen = [
        _option(option, f"{where}.selected_options.{index}", menu) for index, option in enumerate(options)
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
    choice_id, extra, choice = option.get("choice_id"), option.get("extra_price"), option.get("choice")
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
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in cast(list[Any], value)):
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
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 <= minutes <= _YEAR_MIN:
        return None
    return iso_time(about.now_ms + int(minutes * _MINUTE_MS))
