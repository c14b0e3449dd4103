"""What chat programs ask a model for themselves is answered without tools, and stored nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from graphrag.llm.errors import ModelUnauthorized
from server.channels.openai_answers import GivenMessage
from server.client_tasks import task_of
from tests.support.service import GRAPH, answered, error_of, service

CASE = json.loads((Path(__file__).parents[1] / "data/cases/18-title-task/request.json").read_text())
HISTORY = (
    "### Chat History:\n<chat_history>\nUSER: rename fetch-api\nASSISTANT: Done.\n</chat_history>"
)
WORDS = '\n### Guidelines:\n- Keep it short.\n### Output:\nJSON format: { "%s": [] }\n'
OPEN_WEBUI = (
    "### Task:\nGenerate a concise title summarizing the chat history." + WORDS % "title" + HISTORY,
    "### Task:\nGenerate a concise, 3-5 word title without any emojis" + WORDS % "title" + HISTORY,
    "### Task:\nGenerate 1-3 broad tags categorizing the main themes of the chat history"
    + WORDS % "tags"
    + HISTORY,
    "### Task:\nSuggest 3-5 relevant follow-up questions or prompts"
    + WORDS % "follow_ups"
    + HISTORY,
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries, in "
    "the given language." + WORDS % "queries" + HISTORY,
    "### Task:\nYou are an autocompletion system. Continue the text in `<text>`"
    + WORDS % "text"
    + HISTORY,
    "### Task:\nGenerate a detailed prompt for am image generation task"
    + WORDS % "prompt"
    + HISTORY,
    "Your task is to reflect the speaker's likely facial expression through an emoji.\n\nMessage: ```hi```",
    "Create a concise, 3-5 word title with an emoji as a title for the chat history, in the given language.",
    "Here is the query:\nrename it\n\nCreate a concise, 3-5 word phrase with an emoji as a title for "
    "the previous query.",
)
LIBRE_CHAT = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return "
    "the title itself.\n\nConversation:\nUser: rename fetch-api\nAI: Done.",
    "Please generate a concise, 5-word-or-less title for the conversation, using its same language, with no "
    'punctuation.\n\n||>User:\n"rename fetch-api"',
    "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise "
    "title in the detected language (5 words or less, no punctuation or quotation)\n\nUser: rename fetch-api",
    "Detect user language and write in the same language an extremely concise title for this conversation, "
    'which you must accurately detect.\n\n||>User:\n"rename fetch-api"\n\n||>Title:',
    "Write a concise title for this conversation in the given language. Title in 5 Words or Less.",
)
QUESTIONS = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations.\n"
    "### Output:\nA clear answer.\n<context>\nfetch-api\n</context>\n\nWhat fails?",
    "### Task: rename fetch-api to Fetch players",
    "Generate a concise title for the node fetch-api",
    "Can you provide a concise, 5-word-or-less title for the conversation node?",
    "What does '### Task: Generate a title' in the node error-handler mean? ### Output: one line",
    "Suggest 3-5 follow-up nodes after filter-active",
)


@pytest.mark.parametrize("text", [*OPEN_WEBUI, *LIBRE_CHAT])
def test_a_task_is_known_by_its_beginning_alone_or_behind_instructions(text: str) -> None:
    said = GivenMessage(role="user", content=text)
    assert task_of([said])
    assert task_of([GivenMessage(role="system", content="Be kind."), said])
    assert task_of(
        [
            GivenMessage(role="user", content="Hello"),
            GivenMessage(role="assistant", content="Hi"),
            said,
        ]
    )
    assert task_of(
        [
            GivenMessage(role="system", content=text),
            GivenMessage(role="user", content="Language: en"),
        ]
    )


@pytest.mark.parametrize("text", [*QUESTIONS])
def test_a_question_is_no_task_although_it_speaks_of_titles(text: str) -> None:
    assert task_of([GivenMessage(role="user", content=text)]) is None
    task = GivenMessage(role="user", content=OPEN_WEBUI[0])
    assert (
        task_of(
            [
                task,
                GivenMessage(role="assistant", content="A title"),
                GivenMessage(role="user", content=text),
            ]
        )
        is None
    )


def _sent(text: str) -> dict[str, Any]:
    return {"model": f"graph:{GRAPH}", "messages": [{"role": "user", "content": text}]}


async def test_a_task_is_answered_without_tools_and_stored_nowhere() -> None:
    title = '{ "title": "Rename a Node" }'
    said = f"<think>It is about secrets.</think>\n{title}"
    async with answered(said, said, said) as (ed, running, model):
        whole = (await ed.post("/v1/chat/completions", json=CASE)).json()
        assert whole["choices"][0]["message"]["content"] == title
        assert whole["usage"]["completion_tokens"] == 10
        streamed = await ed.post("/v1/chat/completions", json={**CASE, "stream": True})
        assert "secrets" not in streamed.text
        assert streamed.text.endswith("data: [DONE]\n\n")
        response = await ed.post(
            "/v1/responses", json={"model": CASE["model"], "input": OPEN_WEBUI[0]}
        )
        assert response.json()["output"][0]["content"][0]["text"] == title
        assert (await ed.post("/api/ai/threads", json={"graphKey": GRAPH})).json()["threads"] == []
        services = await running.state.services("default")
        assert await services.database.records("default").query("openai_chat") == []
    for request in model.requests:
        assert request.tools == ()
        assert len(request.messages) == 1


async def test_a_conversation_goes_on_where_it_stood_after_a_task() -> None:
    async with answered("It logs.", "A title", "More.") as (ed, _, model):
        first = _sent("What does error-handler do?")
        await ed.post("/v1/chat/completions", json=first)
        await ed.post("/v1/chat/completions", json=_sent(LIBRE_CHAT[0]))
        said = [
            *first["messages"],
            {"role": "assistant", "content": "It logs."},
            {"role": "user", "content": "More?"},
        ]
        await ed.post("/v1/chat/completions", json={**first, "messages": said})
        listed = (await ed.post("/api/ai/threads", json={"graphKey": GRAPH})).json()["threads"]
        assert [one["messageCount"] for one in listed] == [4]
    assert "5-word-or-less" not in str(model.requests[-1])


async def test_a_task_that_the_model_refuses_is_an_error_of_its_own_form() -> None:
    denied = ModelUnauthorized(provider="scripted", reason="no key")
    async with answered(denied) as (ed, _, _):
        assert error_of(await ed.post("/v1/chat/completions", json=CASE))["code"] == "auth_error"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (CASE["messages"][0]["content"], {"title": "rename fetch-api"}),
        (OPEN_WEBUI[2], {"tags": []}),
        (OPEN_WEBUI[3], {"follow_ups": []}),
        (OPEN_WEBUI[4], {"queries": []}),
    ],
)
async def test_without_a_model_a_task_gets_its_form(text: str, answer: dict[str, Any]) -> None:
    async with service() as running, running.as_() as ed:
        said = (await ed.post("/v1/chat/completions", json=_sent(text))).json()
        assert json.loads(said["choices"][0]["message"]["content"]) == answer
        libre = (await ed.post("/v1/chat/completions", json=_sent(LIBRE_CHAT[0]))).json()
        assert libre["choices"][0]["message"]["content"] == "rename fetch-api"
