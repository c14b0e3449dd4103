"""Levels of a turn's prompt: instructions, nodes that are always sent, and what follows."""

from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from datasources.base import MutableGraphDataSource
from datasources.mock import open_nba
from datasources.types import Mutation
from graphrag.agent.events import Completed, Event, ProposalPending, TurnStarted
from graphrag.agent.history import is_context
from graphrag.agent.prompt_budget import answer_room
from graphrag.agent.thread_store import KIND
from graphrag.approvals import Person
from graphrag.i18n import Language
from graphrag.llm.base import Message, SystemMessage
from graphrag.llm.errors import ModelContextTooLong
from graphrag.llm.tokens import prompt_tokens
from graphrag.prompts import RunFacts
from graphrag.retrieval.always_sent import MAX_ALWAYS_SENT, always_sent_keys, write_always_sent
from graphrag.retrieval.prepared_prompt import write_instructions
from tests.graphrag.importers.helpers import n8n, n8n_node, to
from tests.graphrag.importers.helpers import read as read_n8n
from tests.support.agents import EDITOR, GRAPH, VIEWER, Setting, only, scripted, setting_on
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call


async def always_send(setting: Setting, *keys: Any) -> None:
    graph = await setting.source.get_graph(GRAPH)
    changed = graph.model_copy(
        update={"metadata": {**(graph.metadata or {}), "alwaysSend": list(keys)}}
    )
    await setting.source.apply(Mutation(graph_key=GRAPH, graph=changed))


def prefix(messages: list[Message]) -> list[str]:
    return [m.content for m in messages if isinstance(m, SystemMessage) and m.stable]


async def test_nodes_that_are_always_sent_stand_whole_behind_the_instructions_and_are_not_stored() -> (
    None
):
    reads = Says(calls=[call("read_node_detail", {"nodeKey": "filter-active"})])
    async with scripted(reads, "One.", "Two.") as (setting, model):
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
    assert all(line.strip() in always for line in node.process.splitlines()[:1])
    assert "gone" not in always
    assert model.requests[0].messages[1].content == always
    assert always not in str(record.data)
    assert "level" not in str(record.data["conversationHistory"][0])


async def test_what_is_always_sent_changes_with_the_nodes_alone_and_fits_its_budget() -> None:
    async with scripted() as (setting, _):
        await always_send(setting, "fetch-api", "display-html")
        graph = await setting.source.get_graph(GRAPH)

        async def made(language: Language = "en", **more: Any) -> str:
            found = await write_always_sent(setting.source, graph, language=language, **more)
            return "" if found is None else found.content

        first = await made()
        again = await made()
        french = await made("fr")
        tight = await made(budget=10)
        node = await setting.node("fetch-api")
        renamed = node.model_copy(update={"data": {"name": "Other"}})
        await setting.source.apply(Mutation(graph_key=GRAPH, put_nodes=[renamed]))
        assert first == again
        assert first != await made()
        assert french != first
        assert "fetch-api, display-html" in tight
        assert await made(budget=0) == ""


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (None, ()),
        ("fetch-api", ()),
        (["a", "a", 1, "b"], ("a", "b")),
        ([str(n) for n in range(50)], tuple(str(n) for n in range(MAX_ALWAYS_SENT))),
    ],
)
async def test_keys_of_any_form_are_read(given: Any, keys: tuple[str, ...]) -> None:
    async with scripted() as (setting, _):
        graph = await setting.source.get_graph(GRAPH)
        assert (
            always_sent_keys(graph.model_copy(update={"metadata": {"alwaysSend": given}})) == keys
        )


@pytest.mark.parametrize("language", ["en", "fr"])
async def test_the_instructions_of_a_run_say_its_limits_whatever_the_graph(
    language: Language,
) -> None:
    async with scripted() as (setting, _):

        async def written(run: RunFacts | None) -> str:
            graph = await setting.source.get_graph(GRAPH)
            made = await write_instructions(
                setting.source, graph, role="editor", language=language, run=run
            )
            return made.content

        facts = RunFacts(
            occurrence=datetime(2026, 5, 1, tzinfo=UTC), timezone="UTC", trigger="manual", calls=20
        )
        run = await written(facts)
        chat = await written(None)
        node = await setting.node("fetch-api")
        copy = node.model_copy(update={"key": "fetch-again"})
        await setting.source.apply(Mutation(graph_key=GRAPH, put_nodes=[copy]))
        assert await written(facts) == run
        assert await written(None) != chat
    assert "finish_automation" in run
    assert "20" in run
    assert "finish_automation" not in chat


WINDOW = 4_096
KINDS = (
    "set",
    "httpRequest",
    "if",
    "switch",
    "code",
    "merge",
    "slack",
    "gmail",
    "filter",
    "webhook",
)
PEOPLE = [EDITOR, VIEWER]


async def big_workflow(source: MutableGraphDataSource) -> str:
    """Store 60 nodes of 30 types with long parameters and code; return the graph's key."""
    nodes = [
        n8n_node(
            f"Step {number} of the order desk",
            f"n8n-nodes-base.{KINDS[number % 10]}{number % 3 or ''}",
            parameters={
                "jsCode": f"// Handles case {number}.\n" + "return items.map(i => i.json);\n" * 30
            },
        )
        for number in range(60)
    ]
    links = {
        nodes[number]["name"]: {"main": [[to(nodes[number + 1]["name"])]]}
        for number in range(len(nodes) - 1)
    }
    result = read_n8n(n8n(nodes, links), workspace="default")
    for config in result.configs:
        await source.put_node_config(config)
    await source.create_graph(
        result.graph,
        Mutation(graph_key=result.graph.key, put_nodes=result.nodes, put_edges=result.edges),
    )
    return result.graph.key


async def asked(setting: Setting, graph: str, message: str, person: Person) -> list[Event]:
    async with aclosing(setting.agent.run(None, graph, message, person)) as events:
        return [event async for event in events]


def fits(request: Asked) -> bool:
    return prompt_tokens(request.messages, request.tools) + answer_room(WINDOW) <= WINDOW


def names(request: Asked) -> list[str]:
    return [tool["function"]["name"] for tool in request.tools]


@pytest.mark.parametrize("person", [*PEOPLE])
@pytest.mark.parametrize("graph", ["nba", "60 nodes"])
async def test_a_window_of_4096_answers(person: Person, graph: str) -> None:
    reads = Says(calls=[call("search_nodes", {"query": "error"}), call("read_graph_overview")])
    with ScriptedProvider(reads, "Here.", context_window=WINDOW) as model:
        async with open_nba("default") as database:
            setting = setting_on(database, model)
            key = GRAPH if graph == "nba" else await big_workflow(setting.source)
            ending = (await asked(setting, key, "What happens when a step fails?", person))[-1]
    assert isinstance(ending, Completed)
    assert ending.text == "Here."
    for request in model.requests:
        assert fits(request)
        assert len(names(request)) >= 3 or (graph == "nba" and request is model.requests[0])
        assert not any(name.startswith("propose_") for name in names(request))
        assert sum(map(is_context, request.messages)) == 1
        context = next(message for message in request.messages if is_context(message))
        assert prompt_tokens([context]) >= 300, "tools give way before the context does"


@pytest.mark.parametrize("graph", ["nba", "60 nodes"])
async def test_a_window_of_4096_proposes_a_change(graph: str) -> None:
    async with ScriptedProvider(context_window=WINDOW) as model, open_nba("default") as database:
        setting = setting_on(database, model)
        key = GRAPH if graph == "nba" else await big_workflow(setting.source)
        node = (await setting.source.get_nodes(key, limit=1))[0]
        change = {"nodeKey": node.key, "changes": {"data.name": "New"}, "reason": "asked for"}
        model.play(Says(calls=[call("propose_update_node", change)]))
        ending = (await asked(setting, key, f"rename {node.key} to New", EDITOR))[-1]
    assert isinstance(ending, ProposalPending)
    [request] = model.requests
    assert fits(request)
    assert "propose_update_node" in names(request)
    update = next(tool for tool in request.tools if "update_node" in tool["function"]["name"])
    assert "Example: {" in update["function"]["description"]


async def test_tools_go_before_the_question_is_refused() -> None:
    async with (
        ScriptedProvider("Yes.", context_window=2_100) as model,
        open_nba("default") as database,
    ):
        setting = setting_on(database, model)
        ending = (await asked(setting, GRAPH, "What does it do? " + "really " * 1_020, EDITOR))[-1]
    assert isinstance(ending, Completed)
    assert model.requests[0].tools == ()


async def test_a_server_that_refuses_all_the_same_is_asked_with_less() -> None:
    refused = ModelContextTooLong(provider="scripted", reason="too many tokens")
    with ScriptedProvider(refused, "Yes.", context_window=WINDOW) as model:
        async with open_nba("default") as database:
            ending = (await asked(setting_on(database, model), GRAPH, "What does it do?", EDITOR))[
                -1
            ]
    assert isinstance(ending, Completed)
    first, second = (prompt_tokens(request.messages, request.tools) for request in model.requests)
    assert second < first * 0.6


async def test_what_changes_stands_after_what_stays_so_that_a_cache_holds() -> None:
    with ScriptedProvider("One.", "Two.", context_window=32_000) as model:
        async with open_nba("default") as database:
            setting = setting_on(database, model)
            first = await setting.ask("What is root?")
            ending = first[-1]
            assert isinstance(ending, Completed)
            await setting.ask("And the filter?", ending.thread_id)
    one, two = model.requests
    assert one.tools == two.tools
    assert one.messages[0] == two.messages[0]
    assert [is_context(message) for message in one.messages] == [False, True, False]
    assert [is_context(message) for message in two.messages] == [False, False, False, True, False]
