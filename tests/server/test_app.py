"""What holds for every request: errors, ids, limits, health, and that the description
tells the truth.
"""

import asyncio
import json
import logging
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi import APIRouter, FastAPI, routing
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from datasources.errors import SourceUnavailable
from mock_data import load_text
from server import errors
from server.api_docs import api_examples
from server.app import create_app
from server.bodies import AnswerBody, RequestBody
from server.error_responses import error_response
from server.error_schemas import ERRORS
from server.errors import TooManyRequests
from server.limits import RateLimiter
from server.requests import Workspaces
from server.rest_ai import ChatRequest, ResumeRequest
from server.rest_automations import AutomationChanges, AutomationDraft
from server.rest_review import DecisionRequest
from server.run import make_routes, run_server
from server.write_probe import WriteProbe
from tests.server.test_probes import described, endpoints
from tests.support.chosen_database import address_in
from tests.support.profiles import examples as examples_of
from tests.support.scripted_provider import Asked, Says, ScriptedProvider
from tests.support.service import (
    GRAPH,
    Service,
    answered,
    error_of,
    replace_part,
    service,
    settings_of,
    token,
)

EIGHT_THREADS = """
import ctypes, sys, threading
from server.run import limit_arenas

limit_arenas()
libc, held, together = ctypes.CDLL(None), [], threading.Barrier(9)
libc.fopen.restype = ctypes.c_void_p

def work():
    held.append([bytearray(10_000) for _ in range(50)])
    together.wait()
    together.wait()

for _ in range(8):
    threading.Thread(target=work).start()
together.wait()
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
together.wait()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no arenas")
def test_the_threads_of_a_server_share_two_arenas(tmp_path: Path) -> None:
    found = tmp_path / "arenas.xml"
    subprocess.run([sys.executable, "-c", EIGHT_THREADS, found], check=True)
    assert found.read_text().count("<heap nr=") == 2  # of 9 where nothing is limited


async def test_no_request_waits_for_the_framework_to_make_routes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = routing.get_dependant
    made = list[str]()
    app = FastAPI()
    inner = APIRouter()
    outer = APIRouter()
    inner.add_api_route("/inner", lambda: 1)
    outer.include_router(inner)
    app.include_router(outer)
    monkeypatch.setattr(
        routing, "get_dependant", lambda **how: made.append(how["path"]) or make(**how)
    )
    make_routes(app)
    assert made == ["/inner"]
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://x"
    ) as client:
        assert (await client.get("/inner")).json() == 1
        assert (await client.get("/nowhere")).status_code == 404
    assert made == ["/inner"]


def test_every_refusal_of_a_token_has_its_words_in_both_languages() -> None:
    for code in ("no_token", "token_malformed", "token_expired", "token_early", "token_signature"):
        one, other = (
            error_response(errors.AuthError(code=code), language) for language in ("en", "fr")
        )
        assert one.status == 401
        assert one.message != other.message


async def test_an_unexpected_error_is_logged_and_answered_without_its_text(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with service() as running, running.as_() as ed:
        source = (await running.state.services("default")).source

        async def broken() -> Any:
            raise ZeroDivisionError("SELECT secret FROM nodes")

        monkeypatch.setattr(type(source), "list_graphs", lambda _: broken())
        with caplog.at_level(logging.ERROR, logger="server.access"):
            answer = await ed.get("/api/graphs", headers={"X-Request-ID": "mine-1"})
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["requestId"]) == (500, "internal", "mine-1")
    assert "SELECT" not in answer.text
    assert "ZeroDivisionError" not in answer.text
    assert any(
        record.exc_info and record.__dict__["request_id"] == "mine-1" for record in caplog.records
    )


async def test_a_request_id_that_could_forge_a_log_is_replaced() -> None:
    async with service() as running, running.client() as anyone:
        for given_id in ("a b", "x" * 65, "é", ""):
            answer = await anyone.get(
                "/healthz", headers={"X-Request-ID": given_id.encode("utf-8")}
            )
            assert answer.headers["X-Request-ID"].isalnum()


async def test_requests_are_logged_without_keys_or_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="server.access"):
        async with service() as running, running.as_() as ed:
            await ed.get(f"/api/graphs/{GRAPH}?workspace=default")
    [record] = [r for r in caplog.records if r.getMessage() == "http_request"]
    facts = record.__dict__
    assert (facts["route"], facts["status"], facts["user"]) == (
        "/api/graphs/{graph_key}",
        200,
        "ed",
    )
    assert GRAPH not in str(facts)


async def test_what_is_not_there_and_other_methods_are_errors_of_the_same_form() -> None:
    async with service() as running, running.as_() as ed:
        assert error_of(await ed.get("/api/nothing"))["code"] == "not_found"
        assert error_of(await ed.put("/api/graphs"))["code"] == "method_not_allowed"


async def test_other_sites_may_call_only_when_they_are_named() -> None:
    ask = {"Origin": "https://editor.example", "Access-Control-Request-Method": "GET"}
    async with service() as running, running.client() as anyone:
        assert (
            "Access-Control-Allow-Origin"
            not in (await anyone.options("/api/me", headers=ask)).headers
        )
    async with (
        service(cors_origins="https://editor.example") as running,
        running.client() as anyone,
    ):
        allowed = await anyone.options("/api/me", headers=ask)
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://editor.example"
        other = await anyone.options("/api/me", headers={**ask, "Origin": "https://evil.example"})
        assert "Access-Control-Allow-Origin" not in other.headers


async def test_health_tells_whether_the_database_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service() as running, running.client() as anyone:
        replace_part(running.app, "monitoring", write_probe=WriteProbe(every_s=0))
        assert (await anyone.get("/healthz")).json() == {"status": "ok"}
        assert (await anyone.get("/readyz")).json() == {"status": "ok"}
        records = running.state.backend.shared.database.records("default")

        async def gone(*_: Any) -> Any:
            raise SourceUnavailable(source="it", reason="gone")

        monkeypatch.setattr(type(records), "get", gone)
        assert (await anyone.get("/readyz")).status_code == 503
        assert (await anyone.get("/healthz")).status_code == 200


async def test_counters_are_for_admins_and_name_nobody() -> None:
    async with answered("Hello.") as (ed, running, _), running.as_("boss", "admin") as boss:
        await ed.post("/api/ai/chat", json={"graphKey": GRAPH, "message": "hello"})
        assert (await ed.get("/metrics")).status_code == 403
        text = (await boss.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    [turns] = [s for s in families["nodius_turns"].samples if s.name.endswith("_total")]
    assert (turns.labels, turns.value) == ({"ending": "answer"}, 1)
    tokens = {
        s.labels["direction"]: s.value
        for s in families["nodius_model_tokens"].samples
        if "_total" in s.name
    }
    [retrieved] = [
        s for s in families["nodius_retrieval_seconds"].samples if s.name.endswith("_count")
    ]
    assert retrieved.value == 1
    assert tokens == {"prompt": 100, "completion": 10, "cached": 0}
    assert not any(name in text for name in (GRAPH, '"ed"', "default"))


@given(
    st.lists(st.floats(min_value=0, max_value=120), max_size=60),
    st.integers(min_value=1, max_value=20),
)
def test_nobody_gets_more_calls_than_the_rate_allows(pauses: list[float], rate: int) -> None:
    now = 0.0
    limiter = RateLimiter(rate, clock=lambda: now)
    times: list[float] = []
    for pause in pauses:
        now += pause
        try:
            limiter.spend("ed")
        except TooManyRequests as exc:
            refused_at = now
            now = now + exc.retry_after_s + 1e-6
            limiter.spend("ed")  # after the pause that it named, it is let in
            times.append(now)
            assert now > refused_at
        else:
            times.append(now)
        limiter.spend(f"other{len(times)}")
    for start in times:
        assert sum(start <= at < start + 60 for at in times) <= 2 * rate


def test_the_examples_of_the_description_are_bodies_that_are_taken() -> None:
    for model, name in (
        (ChatRequest, "POST /api/ai/chat"),
        (ResumeRequest, "POST /api/ai/resume"),
        (DecisionRequest, "POST /api/approvals/{approval_id}/decision"),
        (AutomationDraft, "POST /api/automations"),
        (AutomationChanges, "POST /api/automations/{automation_id}"),
    ):
        for example in api_examples()["operations"][name]["examples"].values():
            taken = model.model_validate_json(json.dumps(example["value"]))
            assert (
                taken.model_dump(mode="json", by_alias=True, exclude_unset=True) == example["value"]
            )


class Greeting(RequestBody):
    name: str


class Greeted(AnswerBody):
    display_name: str
    graphs: int


async def test_a_new_endpoint_is_one_function_beside_its_bodies() -> None:
    router = APIRouter(prefix="/api", responses=ERRORS)

    @router.post("/greetings")
    async def greet(workspaces: Workspaces, body: Greeting) -> Greeted:
        (place,) = await workspaces.all()
        return Greeted(
            display_name=body.name, graphs=len(await place.services.source.list_graphs())
        )

    async with service() as running, running.as_() as ed, running.client() as anyone:
        running.app.include_router(router)
        answer = await ed.post("/api/greetings", json={"name": "Ann"})
        assert answer.json() == {"displayName": "Ann", "graphs": 1}
        refused = await ed.post("/api/greetings", json={"name": "Ann", "more": 1})
        assert error_of(refused)["code"] == "invalid_message"
        assert (
            error_of(await anyone.post("/api/greetings", json={"name": "Ann"}))["code"]
            == "unauthorized"
        )
        assert "/api/greetings" in running.app.openapi()["paths"]


BODY_FIELDS = (
    *("graphKey", "message", "threadId", "contextType", "limit"),
    *("approved", "feedback", "approvalId", "editedAction", "verdict"),
)
QUERY_FIELDS = (
    "workspace",
    "graphKey",
    "status",
    "asker",
    "limit",
    "after",
    "sheet",
    "head",
    "fileName",
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
_fields = st.sampled_from([*BODY_FIELDS, "x"])
_value = (
    st.sampled_from(
        [GRAPH, "hello", True, "approve", "reject", "graph", None, {"type": "batch"}, ""]
    )
    | _json
)
_body = st.dictionaries(_fields, _value, max_size=5) | _json
_key = st.sampled_from([GRAPH, "nope", "%", "..", "a/b"]) | st.text(min_size=1, max_size=8)
_query = st.dictionaries(
    st.sampled_from(QUERY_FIELDS),
    st.sampled_from(["default", "other", "", "1", "-1", "9" * 30, "pending", "\x00", "é", GRAPH]),
    max_size=3,
)


@given(data=st.data())
@settings(max_examples=examples_of(1 / 6))  # each opens a service, so it asks more of it
async def test_no_request_fails_the_server_or_is_answered_as_nobody_described(
    data: st.DataObject,
) -> None:
    async with service(rate_limit=0) as running, running.as_("al", "admin") as al:
        for method, template in data.draw(
            st.lists(st.sampled_from(endpoints()), min_size=5, max_size=9)
        ):
            path = template
            for name in ("graph_key", "thread_id", "approval_id", "edit_id"):
                path = path.replace(
                    f"{{{name}}}", quote(data.draw(_key), safe="", errors="replace")
                )
            body = data.draw(_body) if method == "POST" else None
            query = data.draw(_query)
            raw = json.dumps(body).encode("utf-8", "surrogatepass") if method == "POST" else None
            answer = await al.request(
                method,
                path,
                content=raw,
                params=query,
                headers={"Content-Type": "application/json"},
            )
            known = described()[template][method.lower()]["responses"]
            assert answer.status_code < 500, (method, path, body, query, answer.text)
            assert str(answer.status_code) in known or answer.status_code in (404, 405), (
                path,
                answer.text,
            )


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
@pytest.mark.slow
@pytest.mark.usefixtures("ends_by_signal")
async def test_a_turn_that_outlasts_the_grace_is_stopped_and_stored(
    tmp_path: Path, number: signal.Signals
) -> None:
    asked = asyncio.Event()

    def answers(_: Asked) -> Says:
        asked.set()
        return Says(text="Half", held=asyncio.Event())

    settings = {"db": address_in(tmp_path / "n.db")}
    with socket.socket() as listening, ScriptedProvider(answers) as provider:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        app = create_app(settings_of(**settings), provider=provider)
        ready = asyncio.Event()
        running = asyncio.create_task(run_server(app, listening, ready.set, grace_s=0))
        await ready.wait()
        raw = load_text("nba.json").encode()
        headers = {"Authorization": f"Bearer {token()}"}
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx2.AsyncClient(
            base_url=base, headers=headers, timeout=20, trust_env=False
        ) as ed:
            made = await ed.post("/api/graphs/import", content=raw, params={"graphKey": GRAPH})
            assert made.status_code == 200
            body = {"graphKey": made.json()["graphKey"], "message": "hello"}
            turn = asyncio.create_task(ed.post("/api/ai/chat", json=body))
            await asked.wait()
            os.kill(os.getpid(), number)
            await running
            assert provider.closed_early == 1
            await asyncio.gather(turn, return_exceptions=True)
    async with service(**settings) as again:
        assert await statuses(again) == ["stopped"]


async def statuses(running: Service) -> list[str]:
    """Return where the last turn of each conversation stands."""
    async with running.as_() as ed:
        found = (await ed.post("/api/ai/threads", json={})).json()["threads"]
        read = [await ed.get(f"/api/ai/thread/{thread['threadId']}/messages") for thread in found]
    return [answer.json()["status"] for answer in read]
