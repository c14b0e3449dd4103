"""The events that operators build on: seen in a log of real turns, with just the facts of their table."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from datasources.mock import open_nba
from graphrag.agent.events import ProposalPending
from graphrag.app.wiring import open_agent, open_services
from graphrag.approvals import Reject
from graphrag.config import load_settings
from graphrag.llm.errors import ModelFailed
from graphrag.log_events import LOG_EVENTS
from graphrag.logs import bind_log_context, configure_logs
from server.server_state import ServerState
from tests.support.agents import EDITOR, only, setting_on
from tests.support.log_entries import check_entry, kept_in
from tests.support.scripted_provider import Says, ScriptedProvider, call

SECRET = "Where do the secret players go?"


async def test_a_turn_with_interrupt_resume_malformed_arguments_and_a_failure_is_logged(
    log_entries: list[dict[str, Any]],
) -> None:
    bind_log_context(sessionId="s1")
    change = {"nodeKey": "disconnected-note", "reason": "unused"}
    steps = [
        Says(calls=[call("search_nodes", "{'query': 'log'}"), call("read_node_detail", '{"key": ')]),
        Says(calls=[call("propose_delete_node", change)]),
        ModelFailed(provider="scripted", reason="out of order", status=500),
    ]
    with ScriptedProvider(*steps) as model:
        async with open_nba("default") as database:
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
        *("tool_call", "http_call", "flags_set"),  # see tests/tools/http/test_http_executor.py
        *("call_started", "call_ended", "barge_in", "delivery", "calls_draining", "event_loop_late"),
        *("ws_chat", "ws_resume", "client_disconnect_abort"),  # see tests/server/test_ws_log.py
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
    ("embeddings", "named"), [("local", "wordllama-l2-256"), ("openai", "some-embedder"), ("none", "none")]
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
    async with ServerState(settings):
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
    with ScriptedProvider("Hello.") as model:
        async with open_nba("default") as database:
            await setting_on(database, model).ask("hello", by=EDITOR)
    names = [entry["event"] for entry in log_entries]
    assert "token_usage" in names
    assert "agent_chat_start" not in names
