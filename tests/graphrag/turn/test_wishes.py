"""Whether a message may ask for a change."""

from __future__ import annotations

import pytest

from graphrag.providers.base import AssistantMessage, Message, UserMessage
from graphrag.turn.wishes import asks_for_change, conversation_asks_for_change
from tests.support.scripted_provider import call


@pytest.mark.parametrize(
    "text",
    [
        *("What happens when fetching fails?", "how does this work", "Where are errors logged?"),
        *("Show me the nodes", "please explain the filter", "Explique le flux", "que fait ce noeud ?"),
        *("Où sont journalisées les erreurs ?", "Combien de nodes ?", "Qu'est-ce que root ?"),
    ],
)
def test_a_plain_question_asks_for_no_change(text: str) -> None:
    assert not asks_for_change(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Add a filter", "can you rename root?", "please delete it", "Could you fix the typo?", "undo that"),
        *("Ajoute un filtre", "Peux-tu renommer root ?", "supprime-le", "relie a et b", "Déplace-le"),
        *(
            "Füge einen Filter hinzu",
            "Agrega un nodo",
            "フィルターを追加して",
            "ok",
            "",
            "yes please",
            "x" * 9_000,
        ),
    ],
)
def test_in_doubt_and_in_any_other_language_a_message_may_ask_for_one(text: str) -> None:
    assert asks_for_change(text)


def test_a_conversation_that_was_about_a_change_still_is() -> None:
    question: list[Message] = [UserMessage(content="What does it do?")]
    assert not conversation_asks_for_change(question)
    assert conversation_asks_for_change([UserMessage(content="Add a node"), *question])
    proposed = AssistantMessage(tool_calls=(call("propose_delete_node"),))
    assert conversation_asks_for_change([proposed, *question * 4])
