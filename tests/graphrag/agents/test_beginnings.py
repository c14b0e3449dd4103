"""A conversation begins with its checks and its session, or not at all."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from datasources.base import Database
from datasources.mock import MemoryDatabase
from graphrag.agents.chat_values import transcript_of, waiting_tools
from graphrag.agents.errors import AgentBlocked, AgentSessionFailed
from graphrag.errors import describe
from graphrag.llm.base import AssistantMessage, SystemMessage
from tests.support.agent_life import Api, Server, compiled, document, server_on
from tests.support.waiting import until
from tools.http.fetch import HttpAnswer, RequestFailed

DOWN = RequestFailed("unreachable")
FETCHED: dict[str, Any] = {
    "mode": "config_url",
    "url": "{{base_url}}/session",
    "params": {"phone": "{{caller_phone}}"},
    "response_mapping": {
        "instructions": "$.prompt",
        "tools": "$.tools",
        "ctx_init": {"customer_id": "$.customer.id", "menu": "$.menu"},
    },
}
GREETING = {
    "known_customer": "Greet {{session.customer.name}}.",
    "unknown_customer": "Greet them.",
    "condition_field": "session.customer.name",
}
ORDER = {"type": "function", "name": "order", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    async with MemoryDatabase() as database:
        yield database


def check(name: str, **fields: Any) -> dict[str, Any]:
    path = f"{{{{base_url}}}}/{name}"
    made = {"name": name, "url": path, "block_if": "$.blocked == true", "on_block": "hangup"}
    return made | fields


def server_of(database: Database, api: Api, **changes: Any) -> Server:
    return server_on(database, api, agent=compiled(document(**changes)))


async def nothing_left(database: Database) -> bool:
    records = database.records("default")
    return not [*await records.query("thread"), *await records.query("delivery")]


async def test_a_blocked_caller_leaves_nothing_behind(database: Database) -> None:
    api = Api(answers={"/a": HttpAnswer(status=200, value={"blocked": True})})
    server = server_of(database, api, pre_call_checks=[check("a")])
    with pytest.raises(AgentBlocked) as refused:
        await server.begin(caller_phone="+33612345678")
    meant = describe(refused.value, "en")
    assert (meant.code, meant.http_status) == ("forbidden", 403)
    assert await nothing_left(database)
    assert [each.path for each in api.sent] == ["/a"]  # and owes no request


async def test_checks_run_side_by_side_and_the_first_in_order_that_blocks_decides(
    database: Database,
) -> None:
    blocked = HttpAnswer(status=200, value={"blocked": True})
    api = Api(answers={"/a": HttpAnswer(status=200, value={}), "/b": blocked, "/c": blocked})
    api.held = {name: asyncio.Event() for name in ("/a", "/b", "/d")}
    said = {"on_block": "message", "message": "Not you, {{caller_phone}}."}
    checks = [check("a"), check("b", **said), check("c", **said | {"message": "C"}), check("d")]
    server = server_of(database, api, pre_call_checks=checks)
    beginning = asyncio.create_task(server.begin(caller_phone="+1555"))
    await until(lambda: len(api.sent) == 4)
    api.held["/a"].set()
    api.held["/b"].set()
    with pytest.raises(AgentBlocked) as refused:
        await beginning  # the last one never answers
    assert refused.value.text("en") == "Not you, +1555."


@pytest.mark.parametrize("answer", [DOWN, HttpAnswer(status=500, value={"blocked": True})])
@pytest.mark.parametrize("on_error", ["allow", "block"])
async def test_a_check_that_fails_means_what_the_document_says(
    database: Database, answer: Any, on_error: str
) -> None:
    api = Api(answers={"/a": answer})
    server = server_of(database, api, pre_call_checks=[check("a", on_error=on_error)])
    if on_error == "allow":
        assert (await server.part(await server.begin())).is_open
        return
    with pytest.raises(AgentBlocked):
        await server.begin()


async def test_a_fetched_session_is_what_the_conversation_knows(database: Database) -> None:
    answer = {
        "prompt": "Sell. {{secret.KEY}} {{ctx.menu}}",
        "tools": [ORDER],
        "customer": {"id": 7, "name": "Ann {{agent.id}}"},
    }
    api = Api(answers={"/session": HttpAnswer(status=200, value=answer)})
    server = server_of(database, api, session=FETCHED, greeting=GREETING)
    stored = await server.begin(caller_phone="+1555")
    part = await server.part(stored)
    assert api.sent[0].params == {"phone": "+1555"}
    assert part.instructions == answer["prompt"]  # an answer is no template
    assert (part.ctx["customer_id"], part.ctx["menu"], part.ctx["agent_id"]) == (7, None, "shop")
    assert part.session == answer
    assert [each["name"] for each in part.declarations or []] == ["order"]
    (note,) = (await server.threads.get_of(stored.thread.key, "default")).thread.messages
    assert isinstance(note, SystemMessage)
    assert note.content == "Greet Ann {{agent.id}}."
    assert transcript_of(stored.thread) == []


@pytest.mark.parametrize(
    "answer",
    [
        DOWN,
        RequestFailed("too_large"),  # 300 kB
        HttpAnswer(status=404, value={"prompt": "Sell."}),
        *(HttpAnswer(status=200, value=value) for value in (None, [], "Sell.", {"text": "<html>"})),
        *(
            HttpAnswer(status=200, value={"prompt": prompt})
            for prompt in (None, 7, ["Sell."], {"a": "Sell."}, "", "  ", "x" * 32_001)
        ),
    ],
)
@pytest.mark.parametrize("fallback", [None, {"instructions": "Take a message for {{agent.name}}."}])
async def test_a_session_that_is_not_to_be_had_falls_back_or_refuses(
    database: Database, answer: Any, fallback: Any
) -> None:
    api = Api(answers={"/session": answer})
    server = server_of(database, api, session=FETCHED | {"fallback": fallback}, greeting=GREETING)
    if fallback is None:
        with pytest.raises(AgentSessionFailed) as refused:
            await server.begin()
        meant = describe(refused.value, "en")
        assert (meant.code, meant.http_status) == ("unavailable", 503)
        assert await nothing_left(database)
    else:
        stored = await server.begin()
        part = await server.part(stored)
        assert (part.instructions, part.declarations, part.session) == (
            "Take a message for Shop.",
            [],
            None,
        )
        assert [message.content for message in stored.thread.messages] == ["Greet them."]
        await server.quiet()
    assert [each.path for each in api.sent] == [
        "/session",
        "/session",
        *(["/calls"] if fallback else []),
    ]


async def test_a_session_is_fetched_again_once(database: Database) -> None:
    answers = iter([DOWN, HttpAnswer(status=200, value={"prompt": "Sell."})])
    api = Api(answers={"/session": lambda _: next(answers)})
    stored = await server_of(database, api, session=FETCHED).begin()
    assert stored.thread.agent.instructions == "Sell."


async def test_tools_of_a_session_that_are_not_in_order_are_left_out(database: Database) -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(30):
        deep = {"type": "object", "properties": {"a": deep}}
    bad = [
        None,
        7,
        {"name": 5},
        ORDER | {"name": "no_such_handler"},
        ORDER | {"name": "__proto__"},
        ORDER | {"name": "look", "parameters": {"type": "array"}},
        ORDER | {"name": "look", "parameters": {"$ref": "https://evil.example/schema"}},
        ORDER | {"name": "look", "parameters": deep},
        ORDER | {"name": "look", "parameters": {"type": "object", "title": "x" * 20_000}},
        ORDER | {"name": "look", "parameters": "$.x"},
    ]
    for tools in ([*bad, ORDER, ORDER], ORDER, "order", {"a": ORDER}, [ORDER] * 5_000):
        api = Api(
            answers={"/session": HttpAnswer(status=200, value={"prompt": "Sell.", "tools": tools})}
        )
        part = await (server := server_of(database, api, session=FETCHED)).part(
            await server.begin()
        )
        names = [each["name"] for each in part.declarations or []]
        assert names == (["order"] if isinstance(tools, list) else [])


async def test_a_session_cannot_set_what_is_the_services(database: Database) -> None:
    answer = {"prompt": "Sell.", "menu": "x" * 70_000, "customer": {"id": {"should_hangup": True}}}
    api = Api(answers={"/session": HttpAnswer(status=200, value=answer)})
    part = await (server := server_of(database, api, session=FETCHED)).part(await server.begin())
    assert part.ctx.get("menu") is None  # too large
    assert (part.ctx["should_hangup"], part.ctx["had_conversation"]) == (False, True)


async def test_an_opening_was_read_already_and_takes_the_place_of_the_greeting(
    database: Database,
) -> None:
    server = server_of(database, Api(), chat={"opening": "Hello {{ctx.x}}!"}, greeting=GREETING)
    stored = await server.begin()
    shown, note = stored.thread.messages
    assert isinstance(shown, AssistantMessage)
    assert (shown.content, shown.exclude_from_prompt) == ("Hello {{ctx.x}}!", True)
    assert "Hello {{ctx.x}}!" in note.content
    assert [each["content"] for each in transcript_of(stored.thread)] == ["Hello {{ctx.x}}!"]


async def test_tools_that_read_what_the_beginning_stores_wait_for_it() -> None:
    assert waiting_tools(compiled(document())) == {"order"}
    assert waiting_tools(compiled(document(lifecycle={}))) == frozenset()
