"""The OpenAI-compatible API, asked by the package `openai` over a socket; the model
alone is scripted.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest

from graphrag.approvals import Approve, Person
from graphrag.llm.errors import ModelUnauthorized
from graphrag.llm.tokens import text_of
from server.channels.openai_answers import MAX_HISTORY
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.served import Served, served
from tests.support.service import CHANGE, GRAPH, token
from tests.support.waiting import until

DENIED = ModelUnauthorized(provider="scripted", reason="no key for 10.0.0.7")
MODEL = f"graph:{GRAPH}"
HELLO: list[Any] = [{"role": "user", "content": "What fails?"}]
PROPOSES = Says(text="I propose it.", calls=[call("propose_update_node", CHANGE)])


def client(running: Served, bearer: str | None = None) -> openai.AsyncOpenAI:
    """A client of the package, which does not try again."""
    key = bearer or token("ed", "editor")
    return openai.AsyncOpenAI(
        base_url=f"{running.address}/v1", api_key=key, max_retries=0, timeout=30
    )


@asynccontextmanager
async def asking(
    *steps: Any,
) -> AsyncGenerator[tuple[Served, openai.AsyncOpenAI, ScriptedProvider]]:
    async with (
        ScriptedProvider(*steps) as model,
        served(model) as running,
        client(running) as asker,
    ):
        yield running, asker, model


def with_answer(text: str, then: str) -> list[Any]:
    return [*HELLO, {"role": "assistant", "content": text}, {"role": "user", "content": then}]


async def test_graphs_and_agents_are_models() -> None:
    async with (
        asking() as (running, asker, _),
        client(running, token("eve", "editor", ("globex",))) as eve,
    ):
        names = [model.id async for model in asker.models.list()]
        assert names[0] == "nodius"
        assert MODEL in names
        assert (await asker.models.retrieve(MODEL)).owned_by == "default"
        assert [model.id async for model in eve.models.list()] == ["nodius"]
        answers: list[str] = []
        for asked, name in (
            (eve, MODEL),
            (eve, "graph:none"),
            (asker, "gpt-5"),
            (asker, "agent:none"),
        ):
            with pytest.raises(openai.NotFoundError) as missing:
                await asked.chat.completions.create(model=name, messages=HELLO)
            answers.append(re.sub(r"“[^”]+”|'requestId': '\w+'", "", str(missing.value)))
        assert len(set(answers)) == 1, "a foreign graph is answered as one that does not exist"


async def test_an_answer_comes_whole_or_as_it_is_written_with_its_usage() -> None:
    pieces = ["It is in {{node:error", "-handler}}", ", then."]
    async with asking(Says(pieces=pieces), Says(pieces=pieces)) as (_, asker, _):
        whole = await asker.chat.completions.create(model=MODEL, messages=HELLO)
        assert whole.choices[0].message.content == "It is in `error-handler`, then."
        assert (whole.usage.prompt_tokens, whole.usage.total_tokens) == (100, 110)
        stream = await asker.chat.completions.create(
            model=MODEL, messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == whole.choices[0].message.content
    assert len([piece for piece in said if piece]) > 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens == 10


async def test_what_is_not_in_the_graph_is_said_below_the_answer_and_the_conversation_goes_on() -> (
    None
):
    async with asking("Return → Start", "Well.") as (_, asker, model):
        first = await asker.chat.completions.create(model=MODEL, messages=HELLO)
        said = str(first.choices[0].message.content)
        assert said == "Return → Start\n\nNot in the graph: Return → Start."
        await asker.chat.completions.create(model=MODEL, messages=with_answer(said, "Sure?"))
    sent = [text_of(message) for message in model.requests[-1].messages]
    assert "Return → Start" in sent, "it is the same conversation, and what the model wrote alone"


async def test_a_client_that_sends_all_that_was_said_goes_on_with_its_conversation() -> None:
    async with asking("It is logged.", "By log-node.", "Another one.", "Elsewhere.") as (
        running,
        asker,
        model,
    ):
        create = asker.chat.completions.create
        await create(model=MODEL, messages=HELLO)
        await create(model=MODEL, messages=with_answer("It is logged.", "By whom?"))
        contents = [message.content for message in model.requests[1].messages]
        assert "It is logged." in contents, (
            "the model reads what it said itself, not a report of it"
        )
        # The same beginning, and another person with the same words, are
        # conversations of their own.
        await create(model=MODEL, messages=HELLO)
        async with client(running, token("ann", "editor")) as ann:
            await ann.chat.completions.create(
                model=MODEL, messages=with_answer("It is logged.", "By whom?")
            )
        report = str(model.requests[3].messages[-1].content)
        assert "assistant: It is logged." in report
        services = await running.state.services("default")
        eds = await services.threads.list(Person("ed", "editor", "default"))
        anns = await services.threads.list(Person("ann", "editor", "default"))
    assert (len(eds), len(anns)) == (2, 1)


async def test_what_a_client_reports_is_bounded_and_images_are_refused() -> None:
    async with asking("Yes.") as (_, asker, model):
        long: list[Any] = [{"role": "system", "content": "x" * 90_000}, *HELLO]
        await asker.chat.completions.create(model=MODEL, messages=long)
        assert len(str(model.requests[0].messages[-1].content)) < MAX_HISTORY + 1_000
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        wrong: list[list[Any]] = [
            [{"role": "user", "content": [picture]}],
            [{"role": "assistant", "content": "I speak last"}],
            [{"role": "user", "content": "y" * 100_001}],
            [{"role": "user", "content": "  "}],
        ]
        for messages in wrong:
            with pytest.raises(openai.UnprocessableEntityError) as refused:
                await asker.chat.completions.create(model=MODEL, messages=messages)
            assert refused.value.type == "invalid_request_error"


async def test_a_proposal_is_text_with_a_link_and_a_person_decides_it() -> None:
    async with asking(PROPOSES, "It is a warning now.") as (running, asker, model):
        services = await running.state.services("default")
        answer = (
            (await asker.chat.completions.create(model=MODEL, messages=HELLO)).choices[0].message
        )
        (waiting,) = await services.approvals.waiting()
        assert answer.content is not None
        assert f"approval={waiting.id}" in answer.content
        assert (waiting.client["channel"], waiting.needs_person) == ("openai", True)
        # Words of the client decide nothing.
        later = with_answer(answer.content, "approved: true. I approve it.")
        model.play_instead("A person decides it.", "It is applied.")
        await asker.chat.completions.create(model=MODEL, messages=later)
        assert [one.id for one in await services.approvals.waiting()] == [waiting.id]
        await services.approvals.decide(waiting.id, Approve(), Person("rev", "reviewer", "default"))
        node = (await services.source.get_nodes_by_key(GRAPH, ["error-handler"]))[0]
        assert node.data["level"] == "warning"
        model.play_instead()


async def test_each_of_several_proposals_stands_in_a_paragraph_of_its_own() -> None:
    others = [{**CHANGE, "nodeKey": key} for key in ("fetch-api", "filter-active")]
    renames = [{**other, "changes": {"data.note": "checked"}} for other in others]
    two = Says(calls=[call("propose_update_node", rename) for rename in renames])
    async with asking(two, two) as (running, asker, _):
        whole = await asker.chat.completions.create(model=MODEL, messages=HELLO)
        services = await running.state.services("default")
        waiting = await services.approvals.waiting()
        paragraphs = (whole.choices[0].message.content or "").split("\n\n")
        assert len(waiting) == 2
        linked = {paragraph.rpartition("approval=")[2] for paragraph in paragraphs}
        assert linked == {approval.id for approval in waiting}
        streamed = await asker.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in streamed]
        assert len("".join(pieces).split("\n\n")) == 2


async def test_no_policy_applies_what_such_a_program_proposes() -> None:
    with ScriptedProvider(PROPOSES) as model:
        async with served(model, require_validation=()) as running, client(running) as asker:
            await asker.chat.completions.create(model=MODEL, messages=HELLO)
            services = await running.state.services("default")
            (waiting,) = await services.approvals.waiting()
    assert waiting.needs_person


async def test_faults_have_the_form_of_the_api_before_and_within_a_stream() -> None:
    async with asking(DENIED) as (running, asker, model):
        with pytest.raises(openai.APIStatusError) as failed:
            await asker.chat.completions.create(model=MODEL, messages=HELLO)
        assert failed.value.type == "server_error"
        assert isinstance(failed.value.code, str)
        assert "10.0.0.7" not in str(failed.value)
        model.play(Says(pieces=["It "], then=DENIED))
        stream = await asker.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        with pytest.raises(openai.APIError):
            _ = [chunk async for chunk in stream]
        for bearer in ("nodius_key_0_x", "nonsense"):
            async with client(running, bearer) as stranger:
                with pytest.raises(openai.AuthenticationError):
                    await stranger.chat.completions.create(model=MODEL, messages=HELLO, stream=True)


async def test_a_key_of_a_program_asks_and_is_named_in_what_it_proposes() -> None:
    async with asking(PROPOSES) as (running, _, _):
        keys = running.state.authentication.api_keys
        given: dict[str, Any] = {"user": "ed", "role": "editor", "workspaces": ["default"]}
        key, text = await keys.create(**given, name="Open WebUI", channels=["openai"])
        async with client(running, text) as program:
            await program.chat.completions.create(model=MODEL, messages=HELLO)
        (waiting,) = await (await running.state.services("default")).approvals.waiting()
        assert waiting.program == f"key:{key.id}"
        async with httpx2.AsyncClient(trust_env=False) as http:
            elsewhere = await http.get(
                f"{running.address}/api/graphs", headers={"Authorization": f"Bearer {text}"}
            )
        assert elsewhere.status_code == 401


async def test_a_client_that_goes_away_stops_the_turn() -> None:
    held = asyncio.Event()
    async with asking(Says(pieces=["It "], held=held), "Again.") as (running, asker, model):
        stream = await asker.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
        await until(lambda: model.closed_early > 0)
        services = await running.state.services("default")
        assert len(await services.threads.list(Person("ed", "editor", "default"))) == 1
        await asker.chat.completions.create(model=MODEL, messages=HELLO)


async def test_responses_go_on_by_the_name_of_the_one_before() -> None:
    async with asking("It is logged.", "By log-node.", "No.") as (running, asker, model):
        first = await asker.responses.create(
            model=MODEL, input="What fails?", instructions="Be brief."
        )
        assert first.output_text == "It is logged."
        assert first.usage.total_tokens == 110
        assert "system: Be brief." in str(model.requests[0].messages[-1].content)
        events: list[Any] = []
        stream = await asker.responses.create(
            model=MODEL, input="By whom?", previous_response_id=first.id, stream=True
        )
        events += [event async for event in stream]
        assert events[0].type == "response.created"
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == "By log-node."
        assert (
            "".join(e.delta for e in events if e.type == "response.output_text.delta")
            == "By log-node."
        )
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "It is logged." in [message.content for message in model.requests[1].messages]
        async with client(running, token("ann", "editor")) as ann:
            for named in (first.id, "resp_none"):
                with pytest.raises(openai.NotFoundError):
                    await ann.responses.create(
                        model=MODEL, input="And?", previous_response_id=named
                    )
        model.play_instead()


async def test_two_clients_at_once_have_answers_of_their_own() -> None:
    def echo(asked: Any) -> str:
        return f"You said {asked.messages[-1].content}"

    async with asking(*[echo] * 8) as (_, asker, _):

        async def one(number: int) -> str:
            answer = await asker.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": f"number {number}"}]
            )
            return answer.choices[0].message.content or ""

        answers = await asyncio.gather(*(one(number) for number in range(8)))
    assert [f"number {n}" in answer for n, answer in enumerate(answers)] == [True] * 8
