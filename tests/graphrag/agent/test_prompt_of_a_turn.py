"""Levels of a turn's prompt: instructions, nodes that are always sent, and what follows."""

from __future__ import annotations

from typing import Any

from datasources.types import Mutation
from graphrag.agent.events import TurnStarted
from graphrag.agent.thread_store import KIND
from graphrag.i18n import Language
from graphrag.llm.base import Message, SystemMessage
from graphrag.retrieval.always_sent import MAX_ALWAYS_SENT, always_sent_keys, write_always_sent
from graphrag.retrieval.prepared_prompt import write_instructions
from tests.support.agents import GRAPH, Setting, only, setting_of
from tests.support.each_row import each_row
from tests.support.scripted_provider import Says, ScriptedProvider, call


async def always_send(setting: Setting, *keys: Any) -> None:
    graph = await setting.source.get_graph(GRAPH)
    changed = graph.model_copy(update={"metadata": {**(graph.metadata or {}), "alwaysSend": list(keys)}})
    await setting.source.apply(Mutation(graph_key=GRAPH, graph=changed))


def prefix(messages: list[Message]) -> list[str]:
    return [m.content for m in messages if isinstance(m, SystemMessage) and m.stable]


async def test_nodes_that_are_always_sent_stand_whole_behind_the_instructions_and_are_not_stored() -> None:
    reads = Says(calls=[call("read_node_detail", {"nodeKey": "filter-active"})])
    with ScriptedProvider(reads, "One.", "Two.") as model:
        async with setting_of(model) as setting:
            await always_send(setting, "fetch-api", "gone", "fetch-api", 7)
            thread_id = only(await setting.ask("What is it?"), TurnStarted).thread_id
            await setting.ask("And that?", thread_id)
            record = await setting.database.records("default").get(KIND, thread_id)
            assert record is not None
            node = await setting.node("fetch-api")
            assert node is not None
    prefixes = [prefix(list(request.messages)) for request in model.requests]
    assert prefixes[0] == prefixes[1] == prefixes[2]
    [_, always] = prefixes[0]
    assert node.process is not None
    assert all(line.strip() in always for line in node.process.splitlines()[:1])
    assert "gone" not in always
    assert model.requests[0].messages[1].content == always
    assert always not in str(record.data)
    assert "level" not in str(record.data["conversationHistory"][0])


async def test_what_is_always_sent_changes_with_the_nodes_alone_and_fits_its_budget() -> None:
    with ScriptedProvider() as model:
        async with setting_of(model) as setting:
            await always_send(setting, "fetch-api", "display-html")
            graph = await setting.source.get_graph(GRAPH)

            async def made(language: Language = "en", **more: Any) -> str:
                found = await write_always_sent(setting.source, graph, language=language, **more)
                return "" if found is None else found.content

            first, again, french, tight = await made(), await made(), await made("fr"), await made(budget=10)
            node = await setting.node("fetch-api")
            assert node is not None
            renamed = node.model_copy(update={"data": {"name": "Other"}})
            await setting.source.apply(Mutation(graph_key=GRAPH, put_nodes=[renamed]))
            assert first == again
            assert first != await made()
            assert french != first
            assert "fetch-api, display-html" in tight
            assert await made(budget=0) == ""


@each_row(
    "given, keys",
    [
        (None, ()),
        ("fetch-api", ()),
        (["a", "a", 1, "b"], ("a", "b")),
        ([str(n) for n in range(50)], tuple(str(n) for n in range(MAX_ALWAYS_SENT))),
    ],
)
async def test_keys_of_any_form_are_read(given: Any, keys: tuple[str, ...]) -> None:
    with ScriptedProvider() as model:
        async with setting_of(model) as setting:
            graph = await setting.source.get_graph(GRAPH)
            assert always_sent_keys(graph.model_copy(update={"metadata": {"alwaysSend": given}})) == keys


@each_row("language", ["en", "fr"])
async def test_the_instructions_of_a_run_say_its_limits_and_do_not_change_with_the_graph(
    language: Language,
) -> None:
    with ScriptedProvider() as model:
        async with setting_of(model) as setting:

            async def written(kind: Any) -> str:
                graph = await setting.source.get_graph(GRAPH)
                made = await write_instructions(
                    setting.source, graph, role="editor", language=language, session_kind=kind, calls=20
                )
                return made.content

            run, chat = await written("automation"), await written("chat")
            node = await setting.node("fetch-api")
            assert node is not None
            copy = node.model_copy(update={"key": "fetch-again"})
            await setting.source.apply(Mutation(graph_key=GRAPH, put_nodes=[copy]))
            assert await written("automation") == run
            assert await written("chat") != chat
    assert "finish_automation" in run
    assert "20" in run
    assert "finish_automation" not in chat
