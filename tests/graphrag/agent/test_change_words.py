"""Whether a message may ask for a change."""

import pytest

from graphrag.agent.change_words import asks_for_change, requests_change
from graphrag.agent.events import ProposalPending
from graphrag.agent.history import conversation_asks_for_change
from graphrag.agent.reply import MAX_ANSWER_CHARS
from graphrag.approvals import Approve
from graphrag.llm.base import AssistantMessage, Message, UserMessage
from tests.support.agents import only, scripted, shown, text_of
from tests.support.scripted_provider import Says, call


@pytest.mark.parametrize(
    "text",
    [
        *("What happens when fetching fails?", "how does this work", "Where are errors logged?"),
        *(
            "Show me the nodes",
            "please explain the filter",
            "Explique le flux",
            "que fait ce noeud ?",
        ),
        *("Où sont journalisées les erreurs ?", "Combien de nodes ?", "Qu'est-ce que root ?"),
        *("Which address is it read from?", "Is the filter connected to the table?"),
        *("How large are the images that the bot creates?", "What does Zero set the payload to?"),
        *("Which nodes are not connected to anything?", "Quels noeuds sont reliés à root ?"),
    ],
)
def test_a_plain_question_asks_for_no_change(text: str) -> None:
    assert not asks_for_change(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Add a filter",
            "can you rename root?",
            "please delete it",
            "Could you fix the typo?",
            "undo that",
        ),
        *(
            "Is it possible to rename root?",
            "Which name should we set?",
            "What about adding a filter?",
        ),
        *("How do I connect a and b?", "Where is root? Delete it.", "Is it wrong? Then fix it?"),
        *(
            "Est-ce que tu peux renommer root ?",
            "Ajoute un filtre",
            "Peux-tu renommer root ?",
            "supprime-le",
            "relie a et b",
            "Déplace-le",
        ),
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


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Rename If to Has file?",
            "Set the timeout to 5000 ms.",
            "Forbid file uploads in the trigger.",
        ),
        *(
            "Let the clerk use gpt-4o instead of gpt-4o-mini.",
            "Could you delete root?",
            "I want you to add a log",
        ),
        *(
            "Put Sort between Keep and Table.",
            "Change what is shown in the table",
            "The table should be called X.",
        ),
        *(
            "Please, can you connect a to b?",
            "Ajoute un filtre",
            "Peux-tu renommer root ?",
            "Mets 5 à la place de 3",
        ),
        *(
            "Il faut que tu supprimes root",
            "Make it retry twice",
            "Delete the list node and show why",
        ),
    ],
)
def test_a_plain_request_for_a_change_is_one(text: str) -> None:
    assert requests_change(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "How do I rename root?",
            "How would you delete the filter",
            "Is it possible to rename root?",
        ),
        *(
            "What would propose_delete_node do?",
            "Should I delete root?",
            "Tell me how to add a node.",
        ),
        *(
            "If I delete root, what breaks?",
            "Can you explain how to connect a and b?",
            "Which name should we set?",
        ),
        *(
            "Would deleting root break the flow?",
            "Let me know how to rename it",
            "Changes of last week?",
        ),
        *(
            "Connected nodes of root?",
            "Do not rename anything",
            "Don't delete root",
            "Ne supprime rien",
        ),
        *(
            "Comment renommer root ?",
            "Faut-il supprimer root ?",
            "Explique comment ajouter un filtre",
        ),
        *(
            "Montre-moi comment relier a et b",
            "Que se passe-t-il si je supprime root ?",
            "N'efface rien",
        ),
    ],
)
def test_a_question_about_a_change_requests_none(text: str) -> None:
    assert not requests_change(text)


def test_a_conversation_that_was_about_a_change_still_is() -> None:
    question: list[Message] = [UserMessage(content="What does it do?")]
    assert not conversation_asks_for_change(question)
    assert conversation_asks_for_change([UserMessage(content="Add a node"), *question])
    proposed = AssistantMessage(tool_calls=(call("propose_delete_node"),))
    assert conversation_asks_for_change([proposed, *question * 4])


@pytest.mark.parametrize(
    "answer",
    [
        *(
            "Done! I have deleted it.",
            "I've added the node.",
            "I renamed root.",
            "The edge has been removed.",
        ),
        *(
            "Successfully updated.",
            "C’est fait.",
            "J’ai supprimé le node.",
            "Le node a bien été renommé.",
        ),
        "It is now connected.",
    ],
)
async def test_a_change_that_nobody_proposed_is_denied_after_the_answer(answer: str) -> None:
    async with scripted(answer) as (setting, _):
        events = await setting.ask("Please delete the note")
    assert text_of(events) == f"{answer}\n\nNothing was changed."
    assert shown(events) == text_of(events)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("Where are errors logged?", "An error is logged when the list has been changed."),
        ("Please delete the note", "I propose to delete it; shall I?"),
        ("What is root?", "It starts the workflow, and was created in May."),
        ("Supprime la note", "Je propose de la supprimer."),
    ],
)
async def test_other_answers_stay_as_they_are(message: str, answer: str) -> None:
    async with scripted(answer) as (setting, _):
        assert shown(await setting.ask(message)) == answer


async def test_a_change_that_was_approved_may_be_confirmed() -> None:
    change = {"nodeKey": "disconnected-note", "reason": "unused"}
    async with scripted(
        Says(calls=[call("propose_delete_node", change)]), "I have deleted it."
    ) as (
        setting,
        _,
    ):
        pending = only(await setting.ask("delete the note"), ProposalPending)
        events = await setting.resume(pending.thread_id, decision=Approve())
    assert text_of(events).endswith("I have deleted it.")


async def test_an_endless_answer_is_cut_in_bounds() -> None:
    async with scripted(Says(pieces=["word " * 10_000] * 160)) as (setting, model):
        events = await setting.ask("What is root?")
    assert len(shown(events)) < MAX_ANSWER_CHARS + 60_000
    assert shown(events).endswith("it grew too long.]")
    assert model.closed_early == 1
