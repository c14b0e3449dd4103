"""All AQL of this adapter, gathered for whoever checks it."""

from __future__ import annotations

from types import ModuleType

from datasources.arango import (
    statements_applying,
    statements_around,
    statements_intents,
    statements_large,
    statements_reading,
    statements_records,
    statements_search,
    statements_setup,
    statements_writing,
)
from datasources.arango.statements import Statement

MODULES: tuple[ModuleType, ...] = (
    statements_applying,
    statements_around,
    statements_intents,
    statements_large,
    statements_reading,
    statements_records,
    statements_search,
    statements_setup,
    statements_writing,
)


def all_statements() -> list[Statement]:
    """Return every statement, by name. A name used twice is a mistake that a test finds."""
    found = [value for module in MODULES for value in vars(module).values() if isinstance(value, Statement)]
    return sorted({id(statement): statement for statement in found}.values(), key=lambda s: s.name)
