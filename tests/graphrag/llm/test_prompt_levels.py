"""What the formats make of levels, notes and long steps: merged turns, and where a
provider's cache ends.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.llm.anthropic_messages import CACHE_LOOKBACK_BLOCKS, to_request
from graphrag.llm.base import (
    DEFAULT_OPTIONS,
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.openai_chat import to_messages
from graphrag.llm.receiver import HistoryRules, fitted_to

RULES = SystemMessage(content="rules")
ALWAYS = SystemMessage(content="nodes", level=2)
SAID = [
    UserMessage(content="Question"),
    SystemMessage(content="results", stable=False, kind="DATA_ADDED"),
    AssistantMessage(content="Answer"),
    SystemMessage(content="note", stable=False),
    UserMessage(content="Another"),
]


def anthropic(messages: list[Message]) -> list[tuple[str, list[str]]]:
    """Return the turns of Anthropic's format as (role, texts)."""
    turns = to_request(messages, [], DEFAULT_OPTIONS)["messages"]
    assert isinstance(turns[-1]["content"], list)
    return [(turn["role"], [block["text"] for block in turn["content"]]) for turn in turns]


def openai(messages: list[Message]) -> list[tuple[str, list[str]]]:
    """Return the turns of OpenAI's format, for servers that want them to alternate."""
    made = to_messages(fitted_to(messages, HistoryRules(late_system="user"), ""))
    return [(one["role"], one["content"].split("\n\n")) for one in made if one["role"] != "system"]


@pytest.mark.parametrize("written", [anthropic, openai])
def test_notes_and_messages_that_follow_each_other_are_one_turn(written: Any) -> None:
    assert written([RULES, *SAID]) == [
        ("user", ["Question", "results"]),
        ("assistant", ["Answer"]),
        ("user", ["note", "Another"]),
    ]


words = st.text("abc", min_size=1, max_size=5)
conversations = st.lists(
    st.one_of(
        st.builds(UserMessage, content=words),
        st.builds(SystemMessage, content=words, stable=st.just(False)),
        st.builds(AssistantMessage, content=words),
    ),
    max_size=12,
).map(lambda rest: [UserMessage(content="first"), *rest, UserMessage(content="last")])


@pytest.mark.parametrize("written", [anthropic, openai])
@given(said=conversations)
def test_merged_turns_alternate_keep_the_order_and_lose_nothing(
    written: Any, said: list[Message]
) -> None:
    turns = written([RULES, *said])
    doubled = [one for (one, _), (two, _) in pairwise(turns) if one == two]
    assert doubled == []
    assert [text for _, texts in turns for text in texts] == [message.content for message in said]
    assert turns[-1][0] == "user"


def step(calls: int, name: str = "s") -> list[Message]:
    """Return a step of a model: so many calls, and their answers."""
    made = [ToolCall(id=f"{name}{n}", name="look", arguments="{}") for n in range(calls)]
    answers = [ToolMessage(call_id=call.id, name="look", content="seen") for call in made]
    return [AssistantMessage(content="I look.", tool_calls=tuple(made)), *answers]


def ends(messages: list[Message]) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the system texts and the places of blocks at which the cache ends."""
    request = to_request(messages, [], DEFAULT_OPTIONS)
    system = [block["text"] for block in request.get("system", []) if "cache_control" in block]
    return system, [
        (t, b)
        for t, turn in enumerate(request["messages"])
        for b, block in enumerate(turn["content"])
        if "cache_control" in block
    ]


def test_the_cache_ends_at_each_level_and_at_the_last_block() -> None:
    assert ends([RULES, *SAID]) == (["rules"], [(2, 1)])
    assert ends([RULES, ALWAYS, *SAID]) == (["rules", "nodes"], [(2, 1)])
    assert ends([RULES, SystemMessage(content="more"), ALWAYS, *SAID])[0] == ["more", "nodes"]


def test_after_a_long_step_the_cache_ends_also_where_the_call_before_had_its_end() -> None:
    before = [RULES, ALWAYS, UserMessage(content="Question"), *step(2, "a")]
    _, [last_before] = ends(before)
    calls = CACHE_LOOKBACK_BLOCKS // 2
    _, short = ends([*before, *step(calls - 1, "b")])
    _, long = ends([*before, *step(calls, "b")])
    assert len(short) == 1
    assert long == [last_before, (4, calls - 1)]


@given(st.lists(st.integers(1, 15), max_size=4), st.booleans())
def test_a_request_never_has_more_than_four_ends(steps: list[int], always: bool) -> None:
    messages: list[Message] = [
        RULES,
        *([ALWAYS] if always else []),
        UserMessage(content="Question"),
    ]
    for number, calls in enumerate(steps):
        messages += step(calls, f"s{number}_")
        system, places = ends(messages)
        assert 2 <= len(system) + len(places) <= 4
