"""Rules answer the notes that begin and end telephone calls with words that can be said."""

import pytest

from graphrag.i18n import text
from graphrag.llm.base import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from graphrag.llm.model_text import complete
from graphrag.rules import RulesProvider
from graphrag.rules.spoken_notes import answer_to_note

LEAD = SystemMessage(content="You answer calls.")


def note(words: str) -> SystemMessage:
    return SystemMessage(content=words, stable=False)


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([note('Say "Welcome to us."')], "Welcome to us."),
        ([note("Greet the caller.")], "Hello, how can I help you?"),
        (
            [AssistantMessage(content="Hi."), note(text("voice_silent", "en"))],
            "Are you still there?",
        ),
        (
            [AssistantMessage(content="Hi."), note(text("voice_farewell", "fr"))],
            text("voice_goodbye", "fr"),
        ),
        ([AssistantMessage(content="Hi."), note("It was decided.")], "It was decided."),
    ],
)
def test_a_note_that_nobody_wrote_is_answered(messages: list[Message], said: str) -> None:
    assert answer_to_note([LEAD, *messages], "en") == said


CALLED = AssistantMessage(tool_calls=(ToolCall(id="c", name="x", arguments="{}"),))


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [UserMessage(content="Hello")],
        [UserMessage(content="Hello"), note("Be brief.")],
        [CALLED, ToolMessage(call_id="c", name="x", content="1"), note("It was decided.")],
        [AssistantMessage(content=""), note("Your answer was empty.")],
    ],
)
def test_notes_beside_words_and_results_are_none_of_these(messages: list[Message]) -> None:
    assert answer_to_note([LEAD, *messages], "en") is None


async def test_such_an_answer_has_no_notice_that_there_is_no_model() -> None:
    answer = await complete(RulesProvider(), [LEAD, note("Greet the caller.")])
    assert answer.text == "Hello, how can I help you?"
