"""Event logs: one JSON object a line, whatever the facts are, in the rooms' own loggers only."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasources.mock import open_nba
from graphrag.agent.events import ProposalPending
from graphrag.app.model_services import open_agent
from graphrag.approvals import Reject
from graphrag.config import load_settings
from graphrag.llm.errors import ModelFailed
from graphrag.logs import JsonLines, bind_log_context, configure_logs
from server.startup import ServerSetup, open_server
from tests.docs.log_events import LOG_EVENTS
from tests.support.agents import EDITOR, only, setting_on
from tests.support.commands import logging_as_it_was
from tests.support.log_entries import check_entry, kept_in
from tests.support.opened import open_services
from tests.support.scripted_provider import Says, ScriptedProvider, call


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    with logging_as_it_was():
        yield


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_facts() -> None:
    stream = io.StringIO()
    configure_logs("info", stream=stream)
    logging.getLogger("graphrag.retrieval.retriever").info(
        "retrieved", extra={"nodes": 7, "ms": 1.5}
    )
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
    old = io.StringIO()
    new = io.StringIO()
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
            st.lists(inner, max_size=3)
            | st.dictionaries(st.integers() | st.text(), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@given(st.text(), facts)
def test_any_fact_gives_one_readable_line_that_says_the_event(
    text: str, facts: dict[str, Any]
) -> None:
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
    logging.getLogger("graphrag").info(
        "real", extra={"event": "forged", "level": "none", "logger": "x"}
    )
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


SECRET = "Where do the secret players go?"


async def test_a_turn_with_interrupt_resume_malformed_arguments_and_a_failure_is_logged(
    log_entries: list[dict[str, Any]],
) -> None:
    bind_log_context(sessionId="s1")
    change = {"nodeKey": "disconnected-note", "reason": "unused"}
    steps = [
        Says(
            calls=[call("search_nodes", "{'query': 'log'}"), call("read_node_detail", '{"key": ')]
        ),
        Says(calls=[call("propose_delete_node", change)]),
        ModelFailed(provider="scripted", reason="out of order", status=500),
    ]
    async with ScriptedProvider(*steps) as model, open_nba("default") as database:
        setting = setting_on(database, model)
        pending = only(await setting.ask(SECRET), ProposalPending)
        await setting.resume(pending.thread_id, decision=Reject("no"))
    named = {entry["event"]: entry for entry in log_entries}
    seen = {name: entry for name, entry in named.items() if name in LOG_EVENTS}
    assert set(LOG_EVENTS) - set(seen) == {
        *(
            "started",
            "rag_embedding",
            "embedding_model_kept",
            "usage_limit",
            "second_look",
        ),  # no model, embedder and limit of settings here
        *(
            "tool_call",
            "tool_arguments",
            "http_call",
            "flags_set",
        ),  # see tests/tools/http/test_http_executor.py
        *(
            "call_started",
            "call_ended",
            "barge_in",
            "delivery",
            "calls_draining",
            "event_loop_late",
            "notices_connected",
            "notices_lost",
        ),
        *(
            "ws_chat",
            "ws_resume",
            "client_disconnect_abort",
        ),  # see tests/server/test_ws_sessions.py
    }
    for name, entry in seen.items():
        check_entry(entry)
        assert entry["sessionId"] == "s1"
        if name not in ("rag_retrieve",):
            assert entry["threadId"] == pending.thread_id, name
    assert named["tool_result"]["turn"] == 1
    corrected = {entry["corrected"] for entry in log_entries if entry["event"] == "malformed_json"}
    assert corrected == {True, False}
    assert named["llm_error"] | {"statusCode": 500, "code": "server_error"} == named["llm_error"]
    assert "secret players" not in orjson.dumps(log_entries, default=str).decode()


@pytest.mark.parametrize(
    ("embeddings", "named"),
    [("local", "wordllama-l2-256"), ("openai", "some-embedder"), ("none", "none")],
)
async def test_who_answers_and_who_embeds_is_logged_at_start(
    log_entries: list[dict[str, Any]], embeddings: str, named: str
) -> None:
    settings = load_settings(
        db="memory:",
        provider="compatible",
        llm_base_url="http://127.0.0.1:1/v1",
        model="some-model",
        embeddings=embeddings,
        embeddings_model="some-embedder",
        openai_api_key="sk-of-openai",
    )
    async with open_server(ServerSetup.of(settings)):
        pass
    async with open_services(settings) as services, open_agent(services):
        pass
    started = [entry for entry in log_entries if entry["event"] == "started"]
    assert len(started) == 2
    for entry in started:
        assert entry["level"] == LOG_EVENTS["started"].level
        assert {name: entry[name] for name in LOG_EVENTS["started"].facts} == {
            "provider": "compatible",
            "model": "some-model",
            "embedder": named,
        }


async def test_a_person_of_no_debug_events_receives_errors_and_usage(
    log_entries: list[dict[str, Any]],
) -> None:
    configure_logs("info", sink=kept_in(log_entries), entries=True)
    async with ScriptedProvider("Hello.") as model, open_nba("default") as database:
        await setting_on(database, model).ask("hello", by=EDITOR)
    names = [entry["event"] for entry in log_entries]
    assert "token_usage" in names
    assert "agent_chat_start" not in names
