"""Every promise of promises.md names tests, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent


def test_what_is_said_to_show_a_promise_is_a_test() -> None:
    promises = re.findall(r"^- .+", (ROOT / "promises.md").read_text("utf-8"), re.MULTILINE)
    named = [re.findall(r"`(\S+)::(\S+)`", promise) for promise in promises]
    assert promises
    assert [promise for promise, tests in zip(promises, named, strict=True) if not tests] == []
    assert [test for tests in named for test in tests if not _is_there(*test)] == []


def _is_there(file: str, name: str) -> bool:
    path = ROOT / file
    if not path.is_file():
        return False
    return (
        re.search(rf"^ *(async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE) is not None
    )
