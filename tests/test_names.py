"""One term a thing: no class and no module of one name stands twice, but for the two sides of one seam."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("cli", "datasources", "graphrag", "server", "tools")
EVERYWHERE = {"__init__.py", "base.py", "errors.py"}
"""What every package may have: what is used from outside, its seam, its errors."""


def _files() -> list[Path]:
    return [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]


def _stores(places: set[str]) -> bool:
    """Tell whether all places are stores: twins of one seam, as sqlite/source.py and arango/source.py."""
    return all(place.startswith("datasources/") for place in places)


def test_no_module_has_the_name_of_another() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        found[file.name].add(str(file.relative_to(ROOT)))
    twice = {
        name: places
        for name, places in found.items()
        if len(places) > 1 and name not in EVERYWHERE and not _stores(places)
    }
    # A command's file is named after the command, and what it calls after what it is.
    commands = {name: {p for p in places if not p.startswith("cli/")} for name, places in twice.items()}
    assert {name: places for name, places in commands.items() if len(places) > 1} == {}


def test_no_class_has_the_name_of_another() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        for name in re.findall(r"^ *class ([^_\W]\w*)", file.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].add(str(file.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
