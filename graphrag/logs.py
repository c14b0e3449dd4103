"""Writes events as JSON lines on standard error: what happened, with facts, never content."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TextIO

import orjson

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One event a line: time, level, logger, event, and whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        event = entry_of(record)
        try:
            return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except orjson.JSONEncodeError:  # what JSON cannot hold is better named than lost
            return orjson.dumps(
                {_plain(name): _plain(value) for name, value in event.items()}
            ).decode()


def entry_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what an event is written as, its context included."""
    event: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    if record.exc_info:
        event["exception"] = logging.Formatter().formatException(record.exc_info)
    own = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    return {**_CONTEXT.get(), **own, **event}


def _plain(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text.encode(errors="backslashreplace").decode()


Entry = Mapping[str, Any]
Sink = Callable[[str], None] | Callable[[Entry], None]
"""Takes one event, as a line of JSON without the line's end or as an entry. May be called
from several threads.
"""

_CONTEXT: ContextVar[Entry] = ContextVar("log_context", default=MappingProxyType({}))


def bind_log_context(**facts: object) -> None:
    """Give every further event of this task, and of those that it starts, these
    fields (`threadId`, say).
    """
    _CONTEXT.set({**_CONTEXT.get(), **facts})


class SinkHandler(logging.Handler):
    """Hands each event to a sink; a sink that fails loses its event and stops nothing."""

    def __init__(self, sink: Sink, *, entries: bool) -> None:
        super().__init__()
        self._sink: Callable[[Any], None] = sink
        self._entries = entries

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._sink(entry_of(record) if self._entries else self.format(record))
        except Exception:  # noqa: BLE001 - as every handler of the standard library does
            self.handleError(record)


def configure_logs(
    level: str,
    *,
    debug: bool = False,
    stream: TextIO | None = None,
    sink: Sink | None = None,
    entries: bool = False,
) -> logging.Handler:
    """Send the events of our rooms to `sink`, else to `stream`; replaces an earlier
    configuration of ours.

    With `entries` the sink gets each event as a mapping, else as a line of JSON.

    `debug` (AI_DEBUG) adds the debug events of retrieval, tools and models: sizes, counts and
    times, never what was asked or answered.
    """
    handler = (
        SinkHandler(sink, entries=entries) if sink else logging.StreamHandler(stream or sys.stderr)
    )
    handler.setFormatter(JsonLines())
    for room in ("graphrag", "datasources", "tools", "server", "cli"):
        logger = logging.getLogger(room)
        logger.handlers[:] = [handler]
        logger.setLevel("DEBUG" if debug else level.upper())
        logger.propagate = False
    # It warns in plain lines of connections that were lost, which the store counts and reports.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    return handler
