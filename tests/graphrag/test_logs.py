"""Event logs: one JSON object a line, whatever the facts are, in the rooms' own loggers only."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.logs import JsonLines, configure_logs

ROOMS = ("graphrag", "datasources", "tools", "server", "cli")


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    before = [(log, log.handlers[:], log.level, log.propagate) for log in map(logging.getLogger, ROOMS)]
    yield
    for log, handlers, level, propagate in before:
        log.handlers[:] = handlers
        log.setLevel(level)
        log.propagate = propagate


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_facts() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logging.getLogger("graphrag.retrieval.retriever").info("retrieved", extra={"nodes": 7, "ms": 1.5})
    [event] = lines(stream)
    assert event.pop("time").endswith("+00:00")
    assert event == {
        "level": "info",
        "logger": "graphrag.retrieval.retriever",
        "event": "retrieved",
        "nodes": 7,
        "ms": 1.5,
    }


def test_events_below_the_level_are_left_out_and_debug_lets_all_through() -> None:
    stream = io.StringIO()
    configure_logs("warning", stream=stream)
    logging.getLogger("tools.x").info("quiet")
    logging.getLogger("tools.x").warning("loud")
    configure_logs("warning", debug=True, stream=stream)
    logging.getLogger("datasources.y").debug("detail")
    assert [event["event"] for event in lines(stream)] == ["loud", "detail"]


def test_configuring_again_replaces_and_never_doubles() -> None:
    old, new = io.StringIO(), io.StringIO()
    configure_logs("info", stream=old)
    configure_logs("info", stream=new)
    logging.getLogger("cli.main").info("once")
    assert old.getvalue() == ""
    assert len(lines(new)) == 1


def test_the_root_logger_and_other_libraries_are_left_alone() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logs("debug", stream=stream)
    logging.getLogger("httpx").warning("not ours")
    assert (root.handlers[:], root.level) == before
    assert stream.getvalue() == ""


def test_an_exception_is_written_in_the_same_line() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    try:
        int("two\nlines")
    except ValueError:
        logging.getLogger("server").exception("failed", extra={"path": "/x"})
    [event] = lines(stream)
    assert event["level"] == "error"
    assert "ValueError: invalid literal" in event["exception"]
    assert event["path"] == "/x"


facts = st.dictionaries(
    st.text(min_size=1, max_size=10),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.binary()
        | st.complex_numbers(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@given(st.text(), facts)
def test_any_fact_gives_one_readable_line_that_says_the_event(text: str, facts: dict[str, Any]) -> None:
    record = logging.LogRecord("graphrag", logging.INFO, "file", 1, text, None, None)
    for name, value in facts.items():
        if name not in record.__dict__:
            record.__dict__[name] = value  # as logging itself adds what is `extra`
    line = JsonLines().format(record)
    assert "\n" not in line
    event = json.loads(line)
    assert event["event"] == text.encode(errors="backslashreplace").decode()
    assert event["level"] == "info"


def test_a_fact_cannot_pass_for_the_event() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logging.getLogger("graphrag").info("real", extra={"event": "forged", "level": "none", "logger": "x"})
    [event] = lines(stream)
    assert (event["event"], event["level"], event["logger"]) == ("real", "info", "graphrag")


def test_a_sink_takes_each_event_as_a_line_of_json() -> None:
    taken: list[str] = []
    configure_logs("info", sink=taken.append)
    log = logging.getLogger("graphrag.somewhere")
    log.info("retrieved", extra={"nodes": 7})
    log.debug("detail")
    assert [json.loads(line)["event"] for line in taken] == ["retrieved"]
    assert json.loads(taken[0])["nodes"] == 7
    configure_logs("info", debug=True, sink=taken.append)
    log.debug("detail")
    assert [json.loads(line)["event"] for line in taken] == ["retrieved", "detail"]


def test_a_sink_that_fails_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(line: str) -> None:
        raise OSError("full")

    configure_logs("info", sink=broken)
    logging.getLogger("graphrag.somewhere").info("retrieved")
    assert "OSError: full" in capsys.readouterr().err
