"""The agent's loop: rounds of tools, limits, corrections, what is stored and what is shown."""

import logging

import pytest

from graphrag.agent.events import (
    Completed,
    Failed,
    ProposalPending,
    Token,
    ToolFinished,
    ToolLimit,
    ToolStarted,
    TurnStarted,
    UsageReported,
)
from graphrag.agent.history import is_context
from graphrag.agent.prompt_budget import prompt_room
from graphrag.agent.thread_store import EmptyMessage
from graphrag.agent.turn_steps import AgentLimits
from graphrag.llm.base import AssistantMessage, SystemMessage, ToolMessage, UsageReport, UserMessage
from graphrag.llm.errors import ModelStreamBroken
from graphrag.llm.tokens import prompt_tokens, text_of
from graphrag.llm.usage_meter import UsageLimits
from graphrag.retrieval.context import CONTEXT_MARKER
from tests.support.agents import EDITOR, of, only, scripted, setting_of, shown
from tests.support.scripted_provider import Asked, Says, ScriptedProvider, call
from tests.support.valid_history import check_valid

SEARCH = {"query": "error"}


def search(number: int = 0) -> Says:
    return Says(calls=[call("search_nodes", {"query": f"error {number}"})])


# an answer


async def test_an_answer_streams_and_is_stored_with_the_question() -> None:
    async with scripted(Says(pieces=["It ", "fetches ", "players."])) as (setting, _):
        events = await setting.ask("What does it do?")
        thread_id = only(events, TurnStarted).thread_id
        assert [event.text for event in of(events, Token)] == ["It ", "fetches ", "players."]
        assert events[-1] == Completed(thread_id=thread_id, text="It fetches players.")
        stored = (await setting.threads.get(thread_id, EDITOR)).thread
        kinds = [type(message) for message in stored.messages]
        assert kinds == [SystemMessage, SystemMessage, UserMessage, AssistantMessage]
        assert (stored.title, stored.message_count, stored.turn.status) == (
            "What does it do?",
            2,
            "idle",
        )
        assert (stored.total_tokens, stored.model, stored.provider) == (110, "script-1", "scripted")


async def test_the_same_failing_call_twice_ends_with_its_error_shown() -> None:
    wrong = {"keys": "nothing-here", "field": "no-such-field"}
    fails = [
        Says(calls=[call("read_node_detail", wrong, call_id=f"c{number}")]) for number in range(2)
    ]
    async with scripted(*fails, "I did it.") as (setting, model):
        events = await setting.ask("What is in it?")
    results = of(events, ToolFinished)
    assert [result.is_error for result in results] == [True, True]
    ending = events[-1]
    assert isinstance(ending, Completed)
    assert ending.text.startswith(
        "I did it.\n\nThe call of read_node_detail failed twice with the same error: "
    )
    assert len(ending.text) > 80, "the error itself is said"
    assert shown(events) == ending.text
    assert model.requests[-1].options.tool_choice == "none"


INVENTED = "**Sort by points** is connected to `Player table`, after the node `Cache players`."
NOTE = "Not in the graph: “Cache players”, Sort by points → Player table."


async def test_what_an_answer_claims_and_the_graph_lacks_is_kept_with_it_and_no_model_is_sent_it() -> (
    None
):
    async with scripted(INVENTED, "Well.") as (setting, model):
        first = (await setting.ask("Is Sort by points connected to Player table?"))[-1]
        assert isinstance(first, Completed)
        assert first.not_in_graph is not None
        assert first.not_in_graph == {
            "nodes": ["Cache players"],
            "edges": [["Sort by points", "Player table"]],
            "note": NOTE,
        }
        stored = (await setting.threads.get(first.thread_id, EDITOR)).thread
        last = stored.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert (last.content, last.not_in_graph) == (INVENTED, first.not_in_graph)
        second = (await setting.ask("Sure?", first.thread_id))[-1]
        assert isinstance(second, Completed)
        assert second.not_in_graph is None
        assert NOTE not in str([text_of(message) for message in model.requests[-1].messages])


async def test_links_to_nodes_that_do_not_exist_and_claims_in_french_are_marked_in_french() -> None:
    async with scripted("Voyez {{node:cache-players}}.", "Voyez {{node:Sort by points}}.") as (
        setting,
        _,
    ):
        ending = (await setting.ask("Où ?", language="fr"))[-1]
        assert isinstance(ending, Completed)
        assert ending.not_in_graph is not None
        assert ending.not_in_graph["note"] == "Absent du graphe : “cache-players”."
        ending = (await setting.ask("Et là ?", language="fr"))[-1]
        assert isinstance(ending, Completed)
        assert ending.not_in_graph is None, "a name in place of a key is no invented node"


async def test_a_question_is_sent_with_instructions_and_the_context_it_retrieves() -> None:
    async with scripted("ok") as (setting, model):
        await setting.ask("Where are errors logged?")
    rules, context, question = model.requests[0].messages
    assert isinstance(rules, SystemMessage)
    assert rules.stable
    assert isinstance(context, SystemMessage)
    assert context.content.startswith(CONTEXT_MARKER)
    assert "error-handler" in context.content
    assert isinstance(question, UserMessage)
    assert question.content == "Where are errors logged?"
    assert "error-handler" in question.retrieved


async def test_a_second_question_keeps_the_instructions_and_replaces_the_context() -> None:
    async with scripted("one", "two") as (setting, model):
        first = await setting.ask("Where are errors logged?")
        second = await setting.ask("What sorts players?", only(first, TurnStarted).thread_id)
        assert only(second, TurnStarted).turn == 2
    sent = model.requests[1].messages
    assert sent[0] == model.requests[0].messages[0]
    assert [is_context(message) for message in sent].count(True) == 1
    assert [m.content for m in sent if isinstance(m, UserMessage | AssistantMessage)] == [
        "Where are errors logged?",
        "one",
        "What sorts players?",
    ]
    assert is_context(sent[-2])


async def test_reads_are_run_and_their_results_go_to_the_model_and_the_client() -> None:
    detail = call("read_node_detail", {"key": "fetch-api"})
    async with scripted(Says(text="Let me look. ", calls=[detail]), "It calls an API.") as (
        setting,
        model,
    ):
        events = await setting.ask()
    finished = only(events, ToolFinished)
    assert (finished.call_id, finished.name, finished.is_error) == (detail.id, detail.name, False)
    assert finished.data["_key"] == "fetch-api"
    assert only(events, ToolStarted) == ToolStarted(call_id=detail.id, name=detail.name)
    reported = model.requests[1].messages[-2]
    assert isinstance(reported, ToolMessage)
    assert (reported.call_id, reported.content) == (detail.id, finished.result_text)
    assert events[-1].text == "Let me look. It calls an API."  # type: ignore[union-attr]


async def test_what_is_said_before_and_after_a_call_is_kept_apart() -> None:
    looking = Says(text="Let me look.", calls=[call("search_nodes", SEARCH)])
    async with scripted(looking, Says(pieces=["Fou", "nd."])) as (setting, _):
        events = await setting.ask()
        messages = await setting.messages(only(events, TurnStarted).thread_id)
    assert shown(events) == only(events, Completed).text == "Let me look.\n\nFound."
    assert messages[-1] == AssistantMessage(content="Found.")


@pytest.mark.parametrize("message", ["", " \n\t "])
async def test_an_empty_message_begins_nothing(message: str) -> None:
    async with scripted() as (setting, _):
        with pytest.raises(EmptyMessage):
            await setting.ask(message)
        assert not await setting.threads.list(EDITOR)


async def test_usage_is_reported_for_each_call_and_summed_in_the_thread() -> None:
    steps = [
        Says(
            calls=[call("search_nodes", SEARCH)],
            usage=UsageReport(prompt=50, completion=5, cached=40),
        )
    ]
    async with scripted(*steps, Says(text="ok", usage=UsageReport(prompt=70, completion=7))) as (
        setting,
        _,
    ):
        events = await setting.ask()
        thread = (await setting.threads.get(only(events, TurnStarted).thread_id, EDITOR)).thread
    assert [(u.prompt, u.completion, u.cached) for u in of(events, UsageReported)] == [
        (50, 5, 40),
        (70, 7, 0),
    ]
    assert (thread.total_prompt_tokens, thread.total_completion_tokens) == (120, 12)


# corrections


async def test_an_error_of_a_call_goes_back_to_the_model_which_keeps_its_tools() -> None:
    steps = [Says(calls=[call("read_node_detail", {"key": "fetch"})]), search(), "Found it."]
    async with scripted(*steps) as (setting, model):
        events = await setting.ask()
    assert of(events, ToolFinished)[0].is_error
    assert "fetch-api" in of(events, ToolFinished)[0].result_text
    assert model.requests[1].tools
    assert isinstance(events[-1], Completed)


async def test_a_model_that_only_leaks_is_asked_twice_and_the_person_gets_that_there_is_no_answer() -> (
    None
):
    async with scripted(*["<function_calls>x"] * 3) as (setting, model):
        events = await setting.ask()
        check_valid(await setting.messages(only(events, TurnStarted).thread_id))
    assert shown(events).startswith("The model gave no usable answer three times in a row")
    assert isinstance(events[-1], Completed)
    assert model.requests[-1].options.tool_choice == "none"


# rounds


async def test_after_five_rounds_a_person_is_asked_and_grants_five_more() -> None:
    async with scripted(*(search(i) for i in range(11)), "Enough.") as (setting, model):
        events = await setting.ask()
        limit = only(events, ToolLimit)
        assert (limit.rounds_used, limit.max_extended) == (5, 10)
        assert events[-1] == limit
        assert len(of(events, ToolFinished)) == 5
        looked = await setting.resume(limit.thread_id)
        assert (len(looked), looked[-1]) == (2, limit)
        more = await setting.resume(limit.thread_id, grant_rounds=True)
        assert len(of(more, ToolFinished)) == 5
        assert isinstance(more[-1], Completed)
        check_valid(await setting.messages(limit.thread_id))
    last = model.requests[-1]
    assert last.options.tool_choice == "none"
    assert "No more tools" in last.messages[-1].content


async def test_granted_rounds_do_not_run_calls_that_were_cut_off_or_repeated() -> None:
    batch = call(
        "propose_batch", {"actions": [{"type": "delete_node", "payload": {"nodeKey": "root"}}]}
    )
    again = search(1)
    read = search(2)
    earlier = again.calls[0]
    script = [Says(calls=[earlier]), Says(calls=[earlier, *read.calls], cut=[batch]), "Enough."]
    async with scripted(*script, limits=AgentLimits(rounds=1, max_rounds=3)) as (setting, _):
        asked = await setting.ask()
        limit = only(asked, ToolLimit)
        more = await setting.resume(limit.thread_id, grant_rounds=True)
        assert not of(more, ProposalPending)
        (ran,) = of(more, ToolFinished)
        assert not ran.is_error
        refused = [event for event in of(asked, ToolFinished) if event.is_error]
        assert len(refused) == 2
        assert isinstance(more[-1], Completed)
        check_valid(await setting.messages(limit.thread_id))


async def test_after_reads_and_after_an_error_the_model_is_sent_what_an_answer_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="graphrag.agent")
    wrong = Says(calls=[call("read_node_detail", {"key": "nowhere"})])
    async with scripted(search(1), wrong, "Here.", "Hello.") as (setting, model):
        thread_id = only(await setting.ask(), TurnStarted).thread_id
        await setting.ask("hi", thread_id)
    last = [request.messages[-1] for request in model.requests]
    notes = [m.content if isinstance(m, SystemMessage) and m.once else "" for m in last]
    assert [bool(note) for note in notes] == [False, True, True, False]
    for note in notes[1:3]:
        assert "current message, not an earlier one" in note
        assert "no raw JSON" in note
    assert "A call failed" in notes[2]
    assert not any(getattr(m, "once", False) for m in await setting.messages(thread_id))
    built = [record.__dict__ for record in caplog.records if record.message == "prompt_built"]
    assert [one["phrase"] for one in built] == [None, "after_reads", "after_error", None]
    assert [one["calls"]["count"] for one in built] == [0, 1, 2, 2]
    assert [one["results"]["count"] for one in built] == [0, 1, 2, 2]
    assert all(
        one[kind]["tokens"] > 0 for one in built[1:] for kind in ("system", "history", "calls")
    )


async def test_calls_in_a_final_answer_are_neither_run_nor_shown() -> None:
    rude = Says(text="Still. ", calls=[call("search_nodes", SEARCH)])
    async with scripted(search(), rude, limits=AgentLimits(rounds=0, max_rounds=0)) as (setting, _):
        events = await setting.ask()
        messages = await setting.messages(only(events, TurnStarted).thread_id)
    assert not of(events, ToolFinished)
    assert len(of(events, ToolStarted)) == 1
    assert messages[-1] == AssistantMessage(content="Still. ")
    assert isinstance(events[-1], Completed)


async def test_a_final_answer_that_says_nothing_is_said_to_be_none() -> None:
    async with scripted(
        search(), Says(text=" "), limits=AgentLimits(rounds=0, max_rounds=0), language="fr"
    ) as (setting, _):
        events = await setting.ask()
    assert "Le modèle n'a pas répondu" in shown(events)


async def test_an_answer_cut_for_length_says_so() -> None:
    async with scripted(Says(text="And then", finish="length")) as (setting, _):
        events = await setting.ask()
    assert shown(events) == "And then\n\n[The answer was cut off: it grew too long.]"


# failing


async def test_what_was_shown_of_a_broken_answer_is_not_taken_for_an_answer() -> None:
    broken = Says(text="The answ", then=ModelStreamBroken(provider="scripted", reason="reset"))
    async with scripted(broken, "The answer.") as (setting, _):
        events = await setting.ask("q")
        thread_id = only(events, TurnStarted).thread_id
        assert only(events, Failed).fault.code == "network"
        check_valid(await setting.messages(thread_id))
        await setting.resume(thread_id)
        texts = [
            m.content for m in await setting.messages(thread_id) if isinstance(m, AssistantMessage)
        ]
        assert texts == ["The answer."]


@pytest.mark.parametrize("window", [4_096, 8_192, 128_000])
async def test_a_small_window_is_offered_fewer_tools_and_still_answers(window: int) -> None:
    with ScriptedProvider("It logs errors.", context_window=window) as model:
        async with setting_of(model) as setting:
            assert shown(await setting.ask("Where are errors logged?")) == "It logs errors."
    asked = model.requests[0]
    assert prompt_tokens(asked.messages, asked.tools) <= prompt_room(window)
    names = [tool["function"]["name"] for tool in asked.tools]
    assert ("search_nodes" in names) == (window > 16_000), "a small one sees all and reads nothing"
    assert ("propose_configure_node_type" in names) == (window > 32_000)
    assert "Where are errors logged?" in asked.messages[-1].content


async def test_a_limit_of_usage_refuses_the_next_call() -> None:
    costly = Says(calls=[call("search_nodes", SEARCH)], usage=UsageReport(prompt=14_000))
    async with scripted(costly, usage=UsageLimits(total_tokens=15_000)) as (setting, model):
        fault = only(await setting.ask(), Failed).fault
    assert fault.code == "usage_limit"
    assert len(model.requests) == 1


async def test_a_fault_of_ours_is_reported_without_its_words() -> None:
    def breaks(asked: Asked) -> Says:
        raise KeyError("secret detail")

    async with scripted(breaks) as (setting, _):
        fault = only(await setting.ask(), Failed).fault
    assert fault.code == "internal"
    assert "secret" not in " ".join(fault.messages.values())
