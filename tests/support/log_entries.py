"""The events of the log as entries, debug ones included."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from graphrag.logs import configure_logs
from tests.docs.log_events import LOG_EVENTS

ROOMS = ("graphrag", "datasources", "tools", "server", "cli")
CONTEXT = frozenset({"threadId", "turn", "sessionId"})


def kept_in(found: list[dict[str, Any]]) -> Callable[[Mapping[str, Any]], None]:
    """Return a sink that adds every entry to a list."""

    def keep(entry: Mapping[str, Any]) -> None:
        found.append(dict(entry))

    return keep


@pytest.fixture
def log_entries() -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    before = [
        (log, log.handlers[:], log.level, log.propagate) for log in map(logging.getLogger, ROOMS)
    ]
    configure_logs("info", debug=True, sink=kept_in(found), entries=True)
    yield found
    for log, handlers, level, propagate in before:
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)


def check_entry(entry: dict[str, Any]) -> None:
    """Check that an event has the level and just the facts that its table says."""
    event = LOG_EVENTS[entry["event"]]
    facts = entry.keys() - {"time", "level", "logger", "event"} - CONTEXT
    assert (entry["level"], facts) == (event.level, set(event.facts) - CONTEXT), entry["event"]
