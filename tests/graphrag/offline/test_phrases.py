"""The phrases: each exists in both languages with the same facts, and each that is named exists."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

import graphrag.offline
from graphrag.offline.phrases import PHRASES

ROOM = Path(graphrag.offline.__file__).parent
SOURCE = "".join(p.read_text("utf-8") for p in ROOM.glob("*.py") if not p.name.startswith("phrases_"))
SAID = set(re.findall(r"""say\(\s*["'](\w+)["']""", SOURCE))
PARTLY = {found[:-1] for found in re.findall(r"""say\(f["'](\w+?_\{)""", SOURCE)}


@pytest.mark.parametrize("name", sorted(PHRASES))
def test_both_languages_state_the_same_facts(name: str) -> None:
    facts = [
        {field for _, field, _, _ in string.Formatter().parse(PHRASES[name][language]) if field}
        for language in ("en", "fr")
    ]
    assert facts[0] == facts[1]


def test_every_phrase_named_in_the_code_exists_and_each_is_named() -> None:
    assert SAID - set(PHRASES) == set()
    unnamed = {name for name in PHRASES if f'"{name}"' not in SOURCE and f"'{name}'" not in SOURCE}
    assert {name for name in unnamed if not name.startswith(tuple(PARTLY))} == set()
