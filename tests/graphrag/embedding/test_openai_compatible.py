"""The HTTP embedder: batches, retries and refusals, through the real client
against a scripted server.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.config import load_settings
from graphrag.embedding import make_embedder, remote
from graphrag.embedding.embedder import (
    EmbeddingError,
    EmbeddingMalformed,
    EmbeddingRefused,
    EmbeddingUnauthorized,
    EmbeddingUnreachable,
)
from graphrag.embedding.remote import REMOTE_LIMITS, OpenAICompatibleEmbedder
from graphrag.llm.tokens import count_tokens
from tests.support.scripted_http import Answer, Request, ScriptedServer


def vector_of(text: str) -> list[float]:
    """A vector that tells its text's length and first letter, not of length 1."""
    return [float(len(text)), float(ord(text[0])), 3.0]


def unit(vector: Sequence[float]) -> np.ndarray:
    return np.array(vector, dtype=np.float32) / np.linalg.norm(vector)


def embedded(request: Request) -> Answer:
    """Answer as a server does."""
    return vectors_answer([vector_of(text) for text in request.json["input"]])


def vectors_answer(
    vectors: Sequence[Sequence[float]], indexes: Sequence[int] | None = None
) -> Answer:
    rows = zip(indexes or range(len(vectors)), vectors, strict=True)
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in rows]
    return Answer(body={"object": "list", "model": "m", "data": data, "usage": {"total_tokens": 1}})


def refusal(status: int, message: str = "no", **headers: str) -> Answer:
    body = {"error": {"message": message, "type": "invalid_request_error", "code": None}}
    return Answer(
        status=status, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
async def make(server: ScriptedServer) -> AsyncIterator[Callable[..., OpenAICompatibleEmbedder]]:
    made: list[OpenAICompatibleEmbedder] = []

    def maker(**options: Any) -> OpenAICompatibleEmbedder:
        given = {"model": "m", "base_url": server.url, **options}
        made.append(OpenAICompatibleEmbedder(**given))
        return made[-1]

    yield maker
    for embedder in made:
        await embedder.aclose()


Make = Callable[..., OpenAICompatibleEmbedder]


async def test_vectors_come_back_normalised_in_the_order_of_the_texts(
    server: ScriptedServer, make: Make
) -> None:
    server.play(embedded)
    embedder = make(api_key="sk-test")
    found = await embedder.embed(["alpha", "be", "c"])
    assert found.dtype == np.float32
    for row, text in zip(found, ["alpha", "be", "c"], strict=True):
        np.testing.assert_allclose(row, unit(vector_of(text)), rtol=1e-6)
    [request] = server.requests
    assert request.path == "/embeddings"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert request.json == {"input": ["alpha", "be", "c"], "model": "m", "encoding_format": "float"}


async def test_blank_texts_are_zero_vectors_and_are_not_sent(
    server: ScriptedServer, make: Make
) -> None:
    server.play(embedded)
    found = await make().embed(["", "word", " \n"])
    assert server.requests[0].json["input"] == ["word"]
    assert found.shape == (3, 3)
    assert found.any(axis=1).tolist() == [False, True, False]


@given(
    st.lists(st.text(min_size=1, max_size=40), max_size=60),
    st.integers(20, 400),
    st.integers(1, 20),
)
def test_batches_keep_order_and_both_bounds(texts: list[str], budget: int, most: int) -> None:
    rows = list(range(len(texts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "REMOTE_LIMITS", replace(remote.REMOTE_LIMITS, request_tokens=budget))
        patch.setattr(remote, "REMOTE_LIMITS", replace(remote.REMOTE_LIMITS, texts=most))
        batches = list(remote._batches(rows, texts))
    assert [row for batch in batches for row in batch] == rows
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or sum(count_tokens(texts[row]) for row in batch) <= budget


async def test_a_text_too_long_for_the_model_is_cut_even_when_each_letter_is_many_tokens(
    server: ScriptedServer, make: Make
) -> None:
    server.play(embedded)
    rare = "𒀀" * REMOTE_LIMITS.text_tokens
    await make().embed(["word " * 20_000, rare])
    sent = server.requests[0].json["input"]
    assert all(
        REMOTE_LIMITS.text_tokens * 0.8 < count_tokens(text) <= REMOTE_LIMITS.text_tokens
        for text in sent
    )
    assert rare.startswith(sent[1])
    assert sum(count_tokens(text) for text in sent) <= REMOTE_LIMITS.request_tokens


@pytest.mark.parametrize(
    "first",
    [
        refusal(429),
        refusal(429, retry_after="0.001"),
        refusal(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"),
        refusal(500),
        refusal(503),
        refusal(408),
        Answer(fault="drop"),
        Answer(body={"data": []}, fault="truncate"),
    ],
    ids=["429", "429-after", "429-date", "500", "503", "408", "drop", "truncate"],
)
async def test_a_passing_failure_is_said_at_once_and_may_be_tried_again(
    server: ScriptedServer, make: Make, first: Answer
) -> None:
    server.play(first, embedded)
    embedder = make()
    with pytest.raises(EmbeddingError) as caught:
        await embedder.embed(["a"])
    assert caught.value.retryable
    pauses = {"0.001": 0.001, "Wed, 21 Oct 2015 07:28:00 GMT": 0.0}  # a date that is over
    assert caught.value.retry_after_s == pauses.get(first.headers.get("retry-after", ""))
    np.testing.assert_allclose((await embedder.embed(["a"]))[0], unit(vector_of("a")), rtol=1e-6)
    assert server.requests[0].body == server.requests[1].body


async def test_texts_do_not_follow_a_server_to_another_address(
    server: ScriptedServer, make: Make
) -> None:
    with ScriptedServer() as elsewhere:
        server.play(Answer(status=307, headers={"Location": f"{elsewhere.url}/v1"}, body=b""))
        with pytest.raises(EmbeddingRefused):
            await make().embed(["a"])
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_accepted_names_the_variable_but_not_the_key(
    server: ScriptedServer, make: Make, status: int
) -> None:
    server.play(refusal(status, "Incorrect API key provided: sk-secret"))
    with pytest.raises(EmbeddingUnauthorized, match="OPENAI_API_KEY") as caught:
        await make(api_key="sk-secret").embed(["a"])
    assert "sk-secret" not in str(caught.value)


async def test_a_server_that_never_answers_in_time_is_unreachable(
    server: ScriptedServer, make: Make
) -> None:
    release = threading.Event()
    server.play(Answer(held=release))
    try:
        with pytest.raises(EmbeddingUnreachable):
            await make(timeout_s=0.2).embed(["a"])
    finally:
        release.set()


async def test_nobody_listening_is_unreachable() -> None:
    with ScriptedServer() as gone:
        url = gone.url
    embedder = OpenAICompatibleEmbedder(model="m", base_url=url)
    with pytest.raises(EmbeddingUnreachable, match=r"127\.0\.0\.1"):
        await embedder.embed(["a"])
    await embedder.aclose()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (vectors_answer([[1.0, 0.0]]), "1 vectors for 2 texts"),
        (vectors_answer([[1.0]] * 3), "3 vectors for 2 texts"),
        (vectors_answer([[1.0], [1.0]], indexes=[0, 0]), "indexes"),
        (vectors_answer([[1.0], [1.0]], indexes=[1, 2]), "indexes"),
        (vectors_answer([[1.0], [1.0, 2.0]]), r"lengths \[1, 2\]"),
        (vectors_answer([[], []]), r"lengths \[0\]"),
        (vectors_answer([[float("nan")], [1.0]]), "not finite"),
        (vectors_answer([[float("inf")], [1.0]]), "not finite"),
        (Answer(body={"data": None}), "data: "),
        (Answer(body={"object": "list"}), "data: Field required"),
        (Answer(body={"data": [{"index": 0, "embedding": None}] * 2}), "data.0.embedding"),
        (Answer(body={"data": [{"embedding": [1.0]}] * 2}), "data.0.index"),
        (Answer(body={"data": [{"index": 0, "embedding": "AAAA"}] * 2}), "data.0.embedding"),
        (Answer(body=[1, 2]), "the answer: "),
        (Answer(body=b'{"data": ['), "the answer: Invalid JSON"),
        (Answer(body=b""), "the answer: Invalid JSON"),
        (
            Answer(body=b"<html>hello</html>", headers={"content-type": "text/html"}),
            "the answer: Invalid",
        ),
        (Answer(status=204, body=b""), "the answer: "),
    ],
)
async def test_an_unusable_answer_is_said_and_not_asked_for_again(
    server: ScriptedServer, make: Make, answer: Answer, reason: str
) -> None:
    server.play(answer)
    with pytest.raises(EmbeddingMalformed, match=reason):
        await make().embed(["a", "b"])


async def test_another_dimension_than_before_is_said(server: ScriptedServer, make: Make) -> None:
    embedder = make()
    server.play(embedded, vectors_answer([[1.0, 0.0]]))
    await embedder.embed(["a"])
    with pytest.raises(EmbeddingMalformed, match="length 2 where it sent 3 before"):
        await embedder.embed(["b"])


async def test_huge_and_tiny_components_keep_their_direction(
    server: ScriptedServer, make: Make
) -> None:
    server.play(vectors_answer([[3e300, 4e300], [3e-300, 4e-300]]))
    np.testing.assert_allclose(await make().embed(["a", "b"]), [[0.6, 0.8]] * 2, rtol=1e-6)


async def test_the_environment_of_the_client_library_is_not_read(
    server: ScriptedServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-elsewhere")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    server.play(embedded)
    await make().embed(["a"])
    assert "sk-elsewhere" not in server.requests[0].headers["authorization"]
    default = OpenAICompatibleEmbedder(model="m")
    assert default._client.base_url.host == "api.openai.com"
    await default.aclose()


ELSEWHERE = {"NODIUS_LLM_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("environment", "model"),
    [
        ({}, "wordllama-l2-256"),
        ({"OPENAI_API_KEY": "  "}, "wordllama-l2-256"),
        ({"OPENAI_API_KEY": "sk-x"}, "text-embedding-3-small"),
        ({"OPENAI_API_KEY": "sk-x", "EMBEDDING_MODEL": "big"}, "big"),
        (
            {"OPENAI_API_KEY": "sk-x", "EMBEDDING_MODEL": "big", "NODIUS_EMBEDDINGS_MODEL": "own"},
            "own",
        ),
        ({"OPENAI_API_KEY": "sk-x", "NODIUS_EMBEDDINGS": "local"}, "wordllama-l2-256"),
        # Questions go elsewhere: no text goes to OpenAI unless that is said.
        ({"OPENAI_API_KEY": "sk-x", **ELSEWHERE}, "wordllama-l2-256"),
        (
            {"OPENAI_API_KEY": "sk-x", **ELSEWHERE, "NODIUS_EMBEDDINGS": "openai"},
            "text-embedding-3-small",
        ),
        (
            {"OPENAI_API_KEY": "sk-x", **ELSEWHERE, "OPENAI_BASE_URL": "http://127.0.0.1:9"},
            "text-embedding-3-small",
        ),
    ],
)
async def test_a_key_of_openai_chooses_its_embeddings_unless_local_ones_are_set(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], model: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    embedder = make_embedder(load_settings())
    assert embedder.model == model
    await embedder.aclose()


async def test_the_tokens_that_a_service_charges_are_known(
    server: ScriptedServer, make: Make
) -> None:
    server.play(embedded, Answer(body={"data": [{"index": 0, "embedding": [1.0]}]}))
    assert (await make().embed_counted(["a", "b"]))[1] == 1
    assert (await make().embed_counted(["a"]))[1] is None
