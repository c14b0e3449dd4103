"""Icons of the services that node types are called after: outlines on a grid of 24."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import orjson

FILE = Path(__file__).with_suffix(".json")
MAX_NAMES = 200  # of one request


@dataclass(frozen=True, slots=True)
class ServiceIcons:
    """`names` are other names of some services."""

    icons: Mapping[str, str]
    names: Mapping[str, str]


def icons_of(names: Iterable[str]) -> dict[str, str]:
    """Returns the outline of each name that is one of a service, for at most MAX_NAMES names."""
    known = service_icons()
    found = {
        name: known.icons.get(known.names.get(name, name)) for name in islice(names, MAX_NAMES)
    }
    return {name: path for name, path in found.items() if path is not None}


@cache
def service_icons() -> ServiceIcons:
    document = orjson.loads(FILE.read_bytes())
    return ServiceIcons(icons=document["icons"], names=document["names"])
