"""The kinds of records are declared in one place, from which copies and backups read them."""

import re
from pathlib import Path

from datasources.record_kinds import RECORD_INDEXES

ROOT = Path(__file__).parents[2]
_KIND = re.compile(r'^(?:\w+_)?KIND(?:: Final)?(?:, \w+)? = "(\w+)"', re.MULTILINE)


def test_every_kind_of_record_that_the_program_stores_is_declared() -> None:
    sources = [path for room in ("graphrag", "server") for path in (ROOT / room).rglob("*.py")]
    kinds = {kind for path in sources for kind in _KIND.findall(path.read_text(encoding="utf-8"))}
    assert {"audit", "imports", "usage", "embedding", "deleted_graph"} <= kinds
    assert kinds - RECORD_INDEXES.keys() == set()
