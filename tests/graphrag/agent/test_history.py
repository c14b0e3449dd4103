"""Conversations kept valid, compacted and cut to a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.agent import history
from graphrag.agent.prompt_budget import prompt_room
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.tokens import prompt_tokens
from graphrag.retrieval.context import CONTEXT_MARKER
from tests.support.valid_history import check_valid

RULES = SystemMessage(content="You are the assistant.")
CALL_IDS = st.sampled_from(["a", "b", "c", "", "a_2"])


def call(call_id: str, name: str = "search_nodes") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments='{"query": "x"}')


def answer(call_id: str, content: str = "found") -> ToolMessage:
    return ToolMessage(call_id=call_id, name="search_nodes", content=content)


def context(text: str = "RELEVANT NODES") -> SystemMessage:
    return SystemMessage(content=f"{CONTEXT_MARKER}\n{text}", stable=False)


def turn(number: int, result: str = "found") -> list[Message]:
    return [
        context(f"context {number}"),
        UserMessage(content=f"question {number}"),
        AssistantMessage(tool_calls=(call(f"c{number}"),)),
        answer(f"c{number}", result),
        AssistantMessage(content=f"answer {number}"),
    ]


def conversation(turns: int, result: str = "found") -> list[Message]:
    return [RULES, *(message for number in range(1, turns + 1) for message in turn(number, result))]


messages = st.lists(
    st.one_of(
        st.builds(UserMessage, content=st.text(max_size=20)),
        st.builds(
            AssistantMessage,
            content=st.text(max_size=20),
            tool_calls=st.lists(CALL_IDS.map(call), max_size=3).map(tuple),
        ),
        st.builds(answer, CALL_IDS, st.text(max_size=20)),
        st.just(context()),
    ),
    max_size=14,
)


FOR_PEOPLE = [
    SystemMessage(content="paused", stable=False, kind="NETWORK_ERROR", exclude_from_prompt=True),
    AssistantMessage(content="draft", tool_calls=(call("a"),), exclude_from_prompt=True),
]


# messages for people


@given(messages, st.lists(st.tuples(st.integers(0, 14), st.sampled_from(FOR_PEOPLE)), max_size=4))
def test_messages_for_people_change_nothing_of_what_a_model_is_sent(
    said: list[Message], notes: list[tuple[int, Message]]
) -> None:
    mixed = list(said)
    for place, note in notes:
        mixed.insert(place, note)
    assert history.shortened(mixed) == history.shortened(said)
    assert history.unanswered(mixed) == history.unanswered(said)
    mended = history.repaired(mixed, missing="none")
    assert [message for message in mended if message not in FOR_PEOPLE] == history.repaired(
        said, missing="none"
    )
    assert sum(message in FOR_PEOPLE for message in mended) == len(notes)


# repair


def test_a_call_without_answer_is_answered_and_a_late_answer_put_in_its_place() -> None:
    asked = AssistantMessage(tool_calls=(call("a"), call("b"), call("c")))
    broken = [
        UserMessage(content="q"),
        asked,
        answer("c"),
        UserMessage(content="again"),
        answer("a"),
    ]
    none = ToolMessage(call_id="b", name="search_nodes", content="stopped", is_error=True)
    made = history.repaired(broken, missing="stopped")
    assert made == [*broken[:2], answer("a"), none, answer("c"), UserMessage(content="again")]


def test_an_answer_to_no_call_is_dropped_and_of_two_answers_the_first_counts() -> None:
    asked = AssistantMessage(tool_calls=(call("a"),))
    made = history.repaired(
        [answer("x"), asked, answer("a", "first"), answer("a", "second")], missing=""
    )
    assert made == [asked, answer("a", "first")]


def test_an_id_used_twice_is_kept_apart_with_its_answers() -> None:
    asked = AssistantMessage(tool_calls=(call("a"), call("a")))
    made = history.repaired([asked, answer("a", "one"), answer("a", "two"), asked], missing="none")
    check_valid(made)
    assert [m.content for m in made if isinstance(m, ToolMessage)] == ["one", "two", "none", "none"]
    assert not history.unanswered(made)


@given(messages)
def test_any_conversation_becomes_valid_and_stays_so(broken: list[Message]) -> None:
    made = history.repaired(broken, missing="stopped")
    check_valid(made)
    assert history.repaired(made, missing="stopped") == made
    assert [m for m in made if isinstance(m, UserMessage)] == [
        m for m in broken if isinstance(m, UserMessage)
    ]


# what is sent


def test_only_the_last_context_is_sent_and_the_rules_once() -> None:
    sent = history.shortened(conversation(4))
    assert [m for m in sent if history.is_context(m)] == [context("context 4")]
    assert sent.count(RULES) == 1
    assert [m.content for m in sent if isinstance(m, UserMessage)] == [
        f"question {i}" for i in range(1, 5)
    ]


def test_results_of_earlier_turns_are_cut_and_those_of_this_one_are_whole() -> None:
    long = "y" * 9_000
    results = [
        m.content for m in history.shortened(conversation(3, long)) if isinstance(m, ToolMessage)
    ]
    assert [len(text) < history.OLD_RESULT_CHARS + 20 for text in results] == [True, True, False]
    assert results[0].endswith("…+7000 chars")
    assert results[2] == long


def test_many_turns_are_summarised_and_at_least_six_kept() -> None:
    for turns in range(1, 40):
        sent = history.shortened(conversation(turns))
        check_valid(sent)
        kept = len([m for m in sent if isinstance(m, UserMessage)])
        assert min(turns, history.KEPT_TURNS) <= kept < 2 * history.KEPT_TURNS
        reported = [m.content for m in sent if m.content.startswith(history.SUMMARY_MARKER)]
        assert len(reported) == (kept < turns)
        if reported:
            assert f"{turns - kept}. Person: question {turns - kept}" in reported[0]
            assert "Answer: answer 1" in reported[0]


def test_the_beginning_of_a_prompt_stays_the_same_for_several_turns() -> None:
    starts = [
        history.shortened(conversation(turns))[1].content
        for turns in range(history.KEPT_TURNS * 2, history.KEPT_TURNS * 4)
    ]
    assert len(set(starts)) == 2


def test_a_summary_is_bounded_and_keeps_what_is_newest() -> None:
    sent = history.shortened(conversation(500))
    reported = sent[1].content
    assert len(reported) < history.SUMMARY_CHARS + 1_500
    assert "question 490" in reported
    assert "question 1 " not in reported
    assert "are left out" in reported


def test_an_outcome_of_a_proposal_is_in_the_summary() -> None:
    asked = AssistantMessage(tool_calls=(call("p", "propose_move_node"),))
    decided = ToolMessage(call_id="p", name="propose_move_node", content="APPLIED: moved a")
    old = [UserMessage(content="move a"), asked, decided, AssistantMessage(content="Done.")]
    sent = history.shortened([RULES, *old, *conversation(13)[1:]])
    assert "Outcome: APPLIED: moved a" in sent[1].content


# windows


@given(
    turns=st.integers(1, 20),
    result=st.sampled_from([10, 3_000, 20_000]),
    limit=st.integers(200, 6_000),
)
def test_what_is_sent_fits_or_is_refused_before_the_model_does(
    turns: int, result: int, limit: int
) -> None:
    whole = conversation(turns, "z w " * (result // 4))
    try:
        sent = history.fitted(whole, limit)
    except history.WindowTooSmall:
        assert limit < 600, "a short question always fits in there"
        return
    assert prompt_tokens(sent) <= limit
    check_valid(sent)
    assert sent[0] == RULES
    assert UserMessage(content=f"question {turns}") in sent


def test_a_long_turn_gives_up_old_results_before_the_newest() -> None:
    steps: list[Message] = []
    for number in range(4):
        steps += [
            AssistantMessage(tool_calls=(call(f"s{number}"),)),
            answer(f"s{number}", f"{number} " * 4_000),
        ]
    whole = [RULES, context(), UserMessage(content="q"), *steps]
    sent = history.fitted(whole, prompt_tokens(whole) // 2)
    results = [m.content for m in sent if isinstance(m, ToolMessage)]
    assert results[-1] == steps[-1].content
    assert all(len(text) < 2_100 for text in results[:-1])


def test_a_message_larger_than_the_window_is_refused_in_words() -> None:
    with pytest.raises(history.WindowTooSmall, match="ask for less") as caught:
        history.fitted([RULES, UserMessage(content="long " * 5_000)], prompt_room(2_000))
    assert caught.value.tokens > 5_000
