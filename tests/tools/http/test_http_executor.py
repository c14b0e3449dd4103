"""Running an HTTP tool: its order, what it sends, stores and returns."""

import json
import logging
import threading
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from starlette.responses import Response

from graphrag.agents.chat_values import http_sentence
from tests.support.log_entries import check_entry
from tests.support.planted import PLANTED_NUMBER, LeakGuard
from tests.support.planted import PLANTED_SECRET as KEY
from tests.support.raw_api import RawApi, answer, raw_api
from tools.base import ToolContext
from tools.http.compiled import CompiledTool, compile_tool
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient, RequestFailed
from tools.http.json_paths import parse_path
from tools.http.model import HttpTool
from tools.http.scope import ConversationValues, Scope, Visits
from tools.http.secret_values import Secrets
from tools.http.tool import Declaration, http_tool
from tools.http.tool_run import ToolOutcome
from tools.tool_box import ToolBox

NOW = 1_736_942_400_000


class Bench:
    """An executor with a loopback server, and the values of one conversation."""

    def __init__(self, api: RawApi, client: HttpClient) -> None:
        self.api = api
        self.secrets = Secrets({"API_KEY": KEY})
        self.executor = HttpExecutor(client, self.secrets, lambda: NOW, http_sentence)
        self.values = ConversationValues(
            agent={"id": "a1", "name": "A", "type": "general", "language": "en", "timezone": "UTC"},
            base_url=api.url,
            call_id="t1",
            caller_phone=PLANTED_NUMBER,
        )

    def tool(self, **document: Any) -> CompiledTool:
        raw = {"type": "http", "url": "{{base_url}}/x", **document}
        return compile_tool("t", HttpTool.model_validate(raw))

    async def run(self, args: Mapping[str, Any] | None = None, **document: Any) -> ToolOutcome:
        return await self.executor.run(self.tool(**document), args or {}, self.values, "c1")


@pytest_asyncio.fixture
async def bench() -> AsyncGenerator[Bench]:
    async with raw_api() as api:
        client = HttpClient(api.rules())
        yield Bench(api, client)
        await client.aclose()


async def test_a_request_is_sent_byte_for_byte_as_the_document_says(bench: Bench) -> None:
    args = {"id": "a/../b?c#é", "n": 4, "note": None, "tags": ["x", "y z"]}
    await bench.run(
        args,
        method="POST",
        url="{{base_url}}/api/items/{{args.id}}?v=1",
        params={"tag": "{{args.tags}}", "none": "{{args.note}}", "lit": None, "n": "{{args.n}}"},
        headers={"Authorization": "Bearer {{secret.API_KEY}}", "X-None": "{{args.note}}"},
        body={
            "n": "{{args.n}}",
            "text": "n={{args.n}}",
            "note": "{{args.note}}",
            "kept": None,
            "o": {},
        },
    )
    (got,) = bench.api.got
    assert got.method == "POST"
    assert got.target == "/api/items/a%2F..%2Fb%3Fc%23%C3%A9?v=1&tag=x&tag=y%20z&n=4"
    assert got.body == b'{"n":4,"text":"n=4","kept":null,"o":{}}'
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert got.headers["idempotency-key"] == "t1:c1:0"
    assert got.headers["host"] == f"127.0.0.1:{bench.api.port}"
    assert got.headers["accept"] == "application/json"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["user-agent"].startswith("nodius/")
    assert "x-none" not in got.headers


@pytest.mark.parametrize(
    ("document", "args", "error"),
    [
        ({"url": "{{base_url}}/o/{{args.id}}"}, {}, "value missing: args.id"),
        (
            {"url": "{{base_url}}/o/{{args.id}}"},
            {"id": ".."},
            "a value cannot be used in the request",
        ),
        ({"headers": {"X": "{{args.id}}"}}, {"id": "a\r\nX-Admin: 1"}, "a value cannot be used"),
        ({"headers": {"X": "{{args.id}}"}}, {"id": "a\x00"}, "a value cannot be used"),
        ({"headers": {"X": "{{args.id}}"}}, {"id": "\ud800"}, "a value cannot be used"),
        ({"params": {"x": "{{args.id}}"}}, {"id": "\ud800"}, "a value cannot be used"),
        (
            {"method": "PUT", "body": {"x": "{{args.id}}"}},
            {"id": "\ud800"},
            "a value cannot be used",
        ),
        ({"headers": {"X": "{{args.id}}"}}, {"id": "a" * 9_000}, "a value cannot be used"),
        ({"params": {"x": "{{args.id}}"}}, {"id": "a" * 9_000}, "a value cannot be used"),
        ({"params": {"x": "{{args.id | int}}"}}, {"id": "12.5"}, "a value cannot be used"),
    ],
)
async def test_values_that_would_change_a_request_send_nothing(
    bench: Bench, document: dict[str, Any], args: dict[str, Any], error: str
) -> None:
    outcome = await bench.run(args, **document)
    assert outcome.value["success"] is False
    assert error in outcome.value["error"]
    assert bench.api.got == []


async def test_a_rendered_value_is_not_rendered_again(bench: Bench) -> None:
    words = "{{secret.API_KEY}} {{ctx.x}}"
    bench.api.answers = [answer({"said": words})]
    bench.values.ctx["x"] = words
    outcome = await bench.run(
        {"text": words},
        method="POST",
        body={"a": "{{args.text}}", "b": "{{ctx.x}}!"},
        on_success={"return": {"api": "$.said", "again": "{{args.text}}"}},
    )
    assert bench.api.got[0].json == {"a": words, "b": f"{words}!"}
    assert outcome.value == {"api": words, "again": words}


async def test_steps_run_in_order_extract_and_stop_the_tool(bench: Bench) -> None:
    orders = {
        "orders": [{"orderNumber": 41}, {"orderNumber": 42, "id": "u42", "status": "pending"}]
    }
    document: dict[str, Any] = {
        "method": "PATCH",
        "url": "{{base_url}}/api/orders",
        "pre_steps": [
            {
                "url": "{{base_url}}/api/orders/status",
                "extract": {"target": "$.orders[?(@.orderNumber == {{args.n}})]"},
                "fail_if": "target == null",
                "fail_return": {"success": False, "error": "no order {{args.n}}"},
            },
            {
                "condition": "pre.target.status not in ['pending']",
                "fail_return": {"success": False, "status": "{{pre.target.status}}"},
            },
        ],
        "body": {"id": "{{target.id}}"},
        "on_success_flags": ["cancelled"],
    }
    bench.api.answers = [answer(orders)]
    missing = await bench.run({"n": 1}, **document)
    injected = await bench.run({"n": "42 || true"}, **document)
    assert missing.value == {"success": False, "error": "no order 1"}
    assert injected.value == {"success": False, "error": "no order 42 || true"}
    assert missing.ok is False
    assert missing.code is None
    orders["orders"][1]["status"] = "done"
    bench.api.answers = [answer(orders)]
    assert (await bench.run({"n": 42}, **document)).value == {"success": False, "status": "done"}
    assert "cancelled" not in bench.values.ctx
    assert {got.method for got in bench.api.got} == {"GET"}
    orders["orders"][1]["status"] = "pending"
    bench.api.got.clear()
    bench.api.answers = [answer(orders), answer({"ok": 1})]
    done = await bench.run({"n": 42}, **document)
    assert done.ok
    assert bench.values.ctx["cancelled"] is True
    assert [(got.method, got.body) for got in bench.api.got] == [
        ("GET", b""),
        ("PATCH", b'{"id":"u42"}'),
    ]
    assert "idempotency-key" not in bench.api.got[0].headers
    assert bench.tool(**document).effect == "acts"


async def test_answers_are_looked_through_beside_the_event_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def first(_path: Any, document: Any, _scope: Any) -> Any:
        threads.append(threading.current_thread())
        return document

    def holds(_condition: Any, _scope: Any) -> bool:
        threads.append(threading.current_thread())
        return False

    monkeypatch.setattr("tools.http.json_paths.Path.first", first)
    monkeypatch.setattr("tools.http.expressions.Expression.holds", holds)
    step = {
        "url": "{{base_url}}/s",
        "extract": {"a": "$.a"},
        "fail_if": "a == [1]",
        "fail_return": 1,
    }
    bench.api.answers = [answer({"a": 1}), answer({})]
    await bench.run(pre_steps=[step], store_in_ctx={"b": "$.b"}, on_success={"return": "$.c"})
    assert len(threads) == 4
    assert threading.main_thread() not in threads


async def test_a_step_that_fails_ends_the_tool_as_its_error(bench: Bench) -> None:
    bench.api.answers = [answer({"why": "no"}, status=404)]
    step = {"url": "{{base_url}}/s"}
    outcome = await bench.run(
        pre_steps=[step], on_error={"return": ["{{error}}", "{{status}}", "$.why"]}
    )
    assert outcome.value == ["refused by the server (HTTP 404)", 404, "no"]
    assert len(bench.api.got) == 1


@pytest.mark.parametrize("effect", ["acts", "read"])
async def test_a_tool_acts_where_any_of_its_requests_does(bench: Bench, effect: str) -> None:
    step = {"url": "{{base_url}}/s", "method": "PUT" if effect == "acts" else "GET"}
    assert bench.tool(pre_steps=[step]).effect == effect


async def test_success_stores_then_flags_then_returns(bench: Bench) -> None:
    bench.api.answers = [answer({"id": 7, "big": "x" * 70_000, "list": [1, 2]})]
    outcome = await bench.run(
        store_in_ctx={"order": "$.id", "big": "$.big", "gone": "$.nothing"},
        on_success_flags=["placed"],
        on_success={
            "return": {
                "id": "$.id",
                "stored": "{{ctx.order}}",
                "flag": "{{ctx.placed}}",
                "cost": "$$5",
            }
        },
    )
    assert outcome.value == {"id": 7, "stored": 7, "flag": True, "cost": "$5"}
    assert bench.values.ctx == {"order": 7, "gone": None, "placed": True}, (
        "what is too large is not stored"
    )
    assert outcome.stored == ("order", "gone")
    assert outcome.flags == ("placed",)


async def test_what_a_conversation_stores_has_room_for_so_much(bench: Bench) -> None:
    names = [f"v{number}" for number in range(9)]
    store = dict.fromkeys(names, "$.big")
    for _ in range(2):
        bench.api.answers = [answer({"big": "x" * 60_000})]
        outcome = await bench.run(store_in_ctx=store)
        assert list(outcome.stored) == names[:4], "those that are stored again take no more room"
    assert len(json.dumps(bench.values.ctx)) < 256 * 1024


async def test_an_act_and_its_step_have_keys_of_their_own_however_long_the_models_id_is(
    bench: Bench,
) -> None:
    bench.api.answers = [answer({}), answer({})] * 2
    tool = bench.tool(method="POST", pre_steps=[{"method": "POST", "url": "{{base_url}}/s"}])
    for ending in "ab":
        await bench.executor.run(tool, {}, bench.values, "call_" + "x" * 4_000 + ending)
    keys = [sent.headers["idempotency-key"] for sent in bench.api.got]
    assert len(set(keys)) == 4
    assert max(map(len, keys)) < 255


async def test_success_if_decides_beside_the_status(bench: Bench) -> None:
    bench.api.answers = [answer({"accepted": False, "why": "full"})]
    document = {
        "success_if": "$.accepted == true and status == 200",
        "on_success_flags": ["placed"],
    }
    outcome = await bench.run(**document)
    assert outcome.value == {
        "success": False,
        "error": "not accepted by the server",
        "detail": '{"accepted":false,"why":"full"}',
    }
    assert bench.values.ctx == {}
    bench.api.answers = [answer({"accepted": True})]
    assert (await bench.run(**document)).value == {"accepted": True}


async def test_the_standard_error_is_in_the_language_of_the_agent_with_a_bounded_detail(
    bench: Bench,
) -> None:
    bench.values.language = "fr-CA"
    bench.api.answers = [answer({"m": "y" * 900}, status=409)]
    outcome = await bench.run()
    assert outcome.value["error"] == "refusé par le serveur (HTTP 409)"
    assert len(outcome.value["detail"]) == 500
    bench.api.answers = [answer(b"<h1>Sorry</h1>", status=500, content_type="text/html")]
    assert "detail" not in (await bench.run()).value


async def test_words_for_a_success_that_cannot_be_rendered_do_not_make_it_an_error(
    bench: Bench,
) -> None:
    bench.api.answers = [answer({"id": 1})]
    outcome = await bench.run(
        {"n": "abc"}, on_success={"return": "{{args.n | int}}"}, on_success_flags=["placed"]
    )
    assert (outcome.ok, outcome.value, bench.values.ctx) == (True, {"id": 1}, {"placed": True})


@pytest.mark.parametrize(
    "shown",
    [
        KEY,
        f"Bearer {KEY}!",
        json.dumps(KEY),
        quote(KEY, safe=""),
        b64encode(KEY.encode()).decode(),
        b64encode(f"me:{KEY}".encode()).decode(),
        b64encode(f"user:{KEY}".encode()).decode(),
    ],
)
async def test_an_answer_that_holds_a_secret_is_masked_before_anything_reads_it(
    bench: Bench, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tools")
    headers = {"Authorization": "Bearer {{secret.API_KEY}}"}
    bench.api.answers = [answer({"echo": {shown: [shown]}, "deep": shown})]
    outcome = await bench.run(
        headers=headers,
        store_in_ctx={"seen": "$"},
        on_success={"return": {"all": "$", "text": "{{ctx.seen}}"}},
    )
    bench.api.answers = [answer({"why": shown}, status=401)]
    failed = await bench.run(headers=headers)
    bench.api.answers = [answer(b"x" * 3_980 + shown.encode(), content_type="text/plain")]
    text = await bench.run(headers=headers)
    everything = (
        json.dumps([outcome.value, bench.values.ctx, failed.value, text.value]) + caplog.text
    )
    assert everything.count("[secret API_KEY]") >= 7
    inside = shown.removeprefix('"').removesuffix('"').rstrip("=")[4:-4]
    assert inside not in everything, "not even where a text was cut in the middle of it"


async def test_a_missing_secret_sends_nothing_and_names_it(bench: Bench) -> None:
    outcome = await bench.run(headers={"Authorization": "Bearer {{secret.OTHER_KEY}}"})
    assert outcome.value["error"] == "the service has no secret OTHER_KEY"
    assert bench.api.got == []


async def test_a_dry_run_shows_the_requests_without_secrets_and_sends_nothing(bench: Bench) -> None:
    tool = bench.tool(
        method="POST",
        headers={"Authorization": "Bearer {{secret.API_KEY}}"},
        pre_steps=[{"url": "{{base_url}}/s", "params": {"p": "{{caller_phone}}"}}],
        body={"a": "{{args.a}}"},
    )
    step, main = bench.executor.dry(tool, {"a": 1}, bench.values)
    assert step.url == f"{bench.api.url}/s?p=%2B33612345678"
    assert main.body == b'{"a":1}'
    assert main.headers == (("Authorization", "Bearer [secret API_KEY]"),)
    with pytest.raises(RequestFailed, match="missing_value"):
        bench.executor.dry(bench.tool(url="{{base_url}}/{{args.x}}"), {}, bench.values)
    assert bench.api.connections == 0


async def test_a_model_calls_the_tool_with_arguments_that_are_checked(bench: Bench) -> None:
    parameters = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}},
        "required": ["n"],
        "additionalProperties": False,
    }
    outcomes: dict[str, ToolOutcome] = {}
    made = http_tool(
        bench.tool(method="POST", body={"n": "{{args.n}}"}, on_success_flags=["done"]),
        Declaration(name="order", description="Orders.", parameters=parameters),
        bench.executor,
        bench.values,
        outcomes,
    )
    assert made.schema()["function"] == {
        "name": "order",
        "description": "Orders.",
        "parameters": parameters,
    }
    assert (made.effect, made.reusable, made.timeout_s) == ("acts", False, 15)
    box = ToolBox([made])
    context = ToolContext(source=None, graph_key="", call_id="c9")  # type: ignore[arg-type]
    for wrong in ('{"n": "one"}', '{"n": 0}', "{}", '{"n": 1, "m": 2}'):
        result = await box.run("order", wrong, context)
        assert result.error
        assert result.error.code == "invalid_arguments"
    assert bench.api.got == []
    result = await box.run("order", "{'n': 3}", context)
    assert result.text.endswith("\n{}"), "the answer itself, after a word on the repaired arguments"
    assert bench.api.got[0].headers["idempotency-key"] == "t1:c9:0"
    assert (bench.values.ctx, outcomes["c9"].flags) == ({"done": True}, ("done",))


async def test_events_hold_facts_and_no_words_numbers_or_secrets(
    bench: Bench, log_entries: list[dict[str, Any]]
) -> None:
    headers = {"Authorization": "Bearer {{secret.API_KEY}}"}
    document: dict[str, Any] = {
        "url": "{{base_url}}/people/{{caller_phone}}?q={{args.words}}",
        "headers": headers,
        "store_in_ctx": {"all": "$"},
        "on_success_flags": ["ordered"],
    }
    bench.api.answers = [answer({"said": f"words {KEY} {PLANTED_NUMBER}"}), answer(status=500)]
    await bench.run({"words": "wxyz"}, **document)
    await bench.run({"words": "wxyz"}, **document)
    everything = log_entries
    log_entries = [entry for entry in everything if entry["level"] != "debug"]
    assert len(everything) > len(log_entries), "rendered templates, at debug"
    assert [entry["event"] for entry in log_entries] == [
        *("http_call", "tool_call", "flags_set"),
        *("http_call", "tool_call"),
    ]
    (arguments, _) = [each for each in everything if each["event"] == "tool_arguments"]
    assert (arguments["level"], arguments["arguments"]) == ("debug", '{"words":"wxyz"}')
    for entry in log_entries:
        check_entry(entry)
        assert not any(
            word in json.dumps(entry) for word in (KEY, PLANTED_NUMBER[1:], "wxyz", "words")
        )
    call, tool = log_entries[:2]
    assert call["path"] == "/people/{{caller_phone}}"
    assert (call["status"], tool["status"], tool["ok"]) == (200, 200, True)
    assert log_entries[2]["flags"] == ["ordered"]
    assert (log_entries[4]["ok"], log_entries[4]["status"]) == (False, 500)


def test_the_guard_of_the_suite_finds_what_is_planted(leak_guard: LeakGuard) -> None:
    logging.getLogger("tools.http").debug("oops", extra={"body": f"x{KEY}y"})
    logging.getLogger("tools.http").info("oops", extra={"to": PLANTED_NUMBER})
    Response(b64encode(f"me:{KEY}".encode()))
    found = leak_guard.found
    leak_guard.found = []
    assert len(found) == 3


@pytest.mark.parametrize("secret", ["12345678", 'quo"te\\s-and-more', "ünïcode-passphrase"])
def test_a_secret_of_digits_quotes_or_accents_is_masked_wherever_it_stands(secret: str) -> None:
    secrets = Secrets({"S": secret, "SHORT": "abc"})
    value = {"n": 12345678, "deep": [{secret: [json.dumps({"x": secret})]}], "abc": True, "ok": 1.5}
    masked = secrets.mask_value(value)
    assert secrets.mask(json.dumps(masked, ensure_ascii=False)) == json.dumps(
        masked, ensure_ascii=False
    )
    assert masked["n"] == ("[secret S]" if secret == "12345678" else 12345678)
    assert masked["deep"] == [{"[secret S]": ['{"x": "[secret S]"}']}]
    assert (masked["abc"], masked["ok"]) == (True, 1.5)
    assert secret not in repr(secrets)


WIDE = {"rows": [{"id": number, "tags": ["a", "b"]} for number in range(3_000)], "n": 1}
NOWHERE = "$.rows[?(@.id == -1)]"
MANY = {f"v{number}": NOWHERE for number in range(50)}


async def test_all_paths_of_a_call_look_at_a_bounded_number_of_values_together(
    bench: Bench,
) -> None:
    bench.api.answers = [answer(WIDE)] * 4
    one = await bench.run(store_in_ctx={"v": NOWHERE, "n": "$.n"})
    assert (one.ok, bench.values.ctx) == (True, {"v": None, "n": 1})
    many = await bench.run(store_in_ctx=MANY)
    assert (many.ok, many.code) == (False, "too_large"), (
        "what was not looked at is not said to be null"
    )
    assert "v1" not in bench.values.ctx
    step = {"url": "{{base_url}}/x", "extract": MANY}
    sent = len(bench.api.got)
    stopped = await bench.run(method="POST", pre_steps=[step])
    assert (stopped.ok, stopped.code, len(bench.api.got)) == (False, "too_large", sent + 1), (
        "nothing is done"
    )
    done = await bench.run(method="POST", store_in_ctx=MANY, on_success_flags=["sent"])
    assert (done.ok, bench.values.ctx["sent"]) == (True, True), "what was carried out counts"


def test_no_path_looks_at_anything_once_the_time_of_the_call_is_over() -> None:
    visits = Visits(until=0.0)
    assert parse_path(NOWHERE.replace("-1", "1")).first(WIDE, Scope({}, visits)) is None
    assert visits.are_spent
    in_time = Scope({}, Visits())
    assert parse_path(NOWHERE.replace("-1", "1")).first(WIDE, in_time) == WIDE["rows"][1]
