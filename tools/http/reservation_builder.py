"""The body builder `confirm_reservation`: a table, and the instant it is reserved for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import field_validator

from tools.http.builder_parts import (
    About,
    BuilderFailed,
    BuilderOptions,
    OptionPath,
    customer,
    member,
    value_at,
)
from tools.http.scope import iso_time

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class ReservationOptions(BuilderOptions):
    """Where the last check of availability is found, and in which zone a time of day is meant."""

    availability: OptionPath = "ctx.last_availability_check"
    timezone: str | None = None

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, OSError) as error:
                raise ValueError("no time zone of this name") from error
        return value


def build_reservation(
    args: Mapping[str, Any], ctx: Mapping[str, Any], session: Any, options: ReservationOptions, about: About
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
