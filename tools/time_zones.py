"""Time zone names in settings and documents."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator


def is_time_zone(name: str) -> bool:
    """Returns whether `name` is an IANA time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # not found, not a valid name, a folder
        return False
    return True


def _checked(name: str) -> str:
    if not is_time_zone(name):
        raise ValueError("there is no such time zone; use a name such as Europe/Paris")
    return name


TimeZone = Annotated[str, AfterValidator(_checked)]
