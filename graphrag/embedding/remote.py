"""Embeds with any server that implements OpenAI's embeddings API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import openai
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from datasources.vectors import normalize
from graphrag.embedding import embedder
from graphrag.llm.errors import retry_after_s
from graphrag.llm.tokens import count_tokens, fits
from tools.trace_context import TRACED

OPENAI_URL = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """Limits of one request for embeddings."""

    texts: int = 512
    # Below the limit of 8,192 tokens of OpenAI's models.
    text_tokens: int = 8_000
    request_tokens: int = 250_000
    timeout_s: float = 60.0


REMOTE_LIMITS: Final = RemoteLimits()


_SEARCH = "Represent this sentence for searching relevant passages: "
_TASK = "Instruct: Given a question, find what answers it\nQuery: "
PREFIXES: Final = (
    (re.compile(r"e5-.*instruct|e5-mistral|qwen3-embedding"), _TASK, ""),
    (re.compile(r"(^|[-/])e5-"), "query: ", "passage: "),
    (re.compile(r"bge-(small|base|large)-en|mxbai-embed-large|arctic-embed(?!.*v2)"), _SEARCH, ""),
    (re.compile(r"arctic-embed.*v2"), "query: ", ""),
    (re.compile(r"nomic-embed-text"), "search_query: ", "search_document: "),
    (re.compile(r"embeddinggemma"), "task: search result | query: ", "title: none | text: "),
)
"""Prefixes of queries and of passages, by a pattern of the model's name. Others need no prefix.

Source: the model cards of their publishers.
"""


class _Embedding(BaseModel):
    model_config = ConfigDict(extra="ignore")

    index: int
    embedding: list[float]


class _Charged(BaseModel):
    model_config = ConfigDict(extra="ignore")

    total_tokens: int | None = None


class _EmbeddingsAnswer(BaseModel):
    """The used fields of an answer. Validated here, because the client does not validate."""

    model_config = ConfigDict(extra="ignore")

    data: list[_Embedding]
    usage: _Charged | None = None


class OpenAICompatibleEmbedder:
    """Sends one HTTP request for each batch of texts, limited by number and tokens."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = REMOTE_LIMITS.timeout_s,
    ) -> None:
        self.model = model
        matching = (prefixes for pattern, *prefixes in PREFIXES if pattern.search(model.lower()))
        self._of_question, self._of_passage = next(matching, ("", ""))
        self._dim: int | None = None
        # The client requires a key even for a local server. Key and address are always passed,
        # or the client would read them from the environment.
        self._client = openai.AsyncOpenAI(
            api_key=api_key or "no-key",
            base_url=base_url or OPENAI_URL,
            timeout=timeout_s,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(
                follow_redirects=False,  # texts of nodes are sent only to this server
                **TRACED,
            ),
        )

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return (await self.embed_counted(texts))[0]

    async def embed_counted(self, texts: Sequence[str]) -> tuple[NDArray[np.float32], int | None]:
        """Implements ReportsTokens."""
        rows = [i for i, text in enumerate(texts) if text.strip()]
        prefixes = (
            self._of_question if isinstance(text, embedder.AskedText) else self._of_passage
            for text in texts
        )
        bounded = [_bounded(prefix + text) for prefix, text in zip(prefixes, texts, strict=True)]
        results: list[tuple[list[int], NDArray[np.float32]]] = []
        tokens: int | None = 0
        for batch in _batches(rows, bounded):
            batch_vectors, charged = await self._request([bounded[i] for i in batch])
            results.append((batch, batch_vectors))
            tokens = None if tokens is None or charged is None else tokens + charged
        vectors = np.zeros((len(texts), self._dim or 0), dtype=np.float32)
        for batch, batch_vectors in results:
            vectors[batch] = batch_vectors
        return vectors, tokens

    async def aclose(self) -> None:
        await self._client.close()

    async def _request(self, texts: list[str]) -> tuple[NDArray[np.float32], int | None]:
        try:
            answer = await self._client.embeddings.with_raw_response.create(
                model=self.model, input=texts, encoding_format="float"
            )
        except openai.OpenAIError as exc:
            raise self._translated(exc) from exc
        return self._checked(answer.content, len(texts))

    def _translated(self, exc: openai.OpenAIError) -> embedder.EmbeddingError:
        name = f"{self.model} at {self._client.base_url.host}"
        if isinstance(exc, openai.AuthenticationError | openai.PermissionDeniedError):
            return embedder.EmbeddingUnauthorized(provider=name, variable="OPENAI_API_KEY")
        if isinstance(exc, openai.APIStatusError):
            return embedder.EmbeddingRefused(
                provider=name,
                status=exc.status_code,
                reason=exc.message[:300],
                retryable=exc.status_code in (408, 409, 429) or exc.status_code >= 500,
                retry_after_s=retry_after_s(exc.response.headers),
            )
        if isinstance(exc, openai.APIConnectionError):
            return embedder.EmbeddingUnreachable(provider=name, reason=str(exc.__cause__ or exc))
        return embedder.EmbeddingMalformed(provider=name, reason=str(exc)[:300])

    def _checked(self, body: bytes, count: int) -> tuple[NDArray[np.float32], int | None]:
        def bad(reason: str) -> embedder.EmbeddingMalformed:
            return embedder.EmbeddingMalformed(provider=self.model, reason=reason)

        try:
            parsed = _EmbeddingsAnswer.model_validate_json(body)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the answer"
            raise bad(f"{where}: {first['msg']}") from exc
        items = parsed.data
        items.sort(key=lambda item: item.index)
        if [item.index for item in items] != list(range(count)):
            raise bad(
                f"{len(items)} vectors for {count} texts, or with other indexes than 0 to {count - 1}"
            )
        lengths = {len(item.embedding) for item in items}
        if len(lengths) != 1 or lengths == {0}:
            raise bad(f"vectors of lengths {sorted(lengths)} in one answer")
        if self._dim is not None and lengths != {self._dim}:
            raise bad(f"vectors of length {lengths.pop()} where it sent {self._dim} before")
        vectors = np.array([item.embedding for item in items], dtype=np.float64)
        if not np.isfinite(vectors).all():
            raise bad("a vector that is not finite")
        self._dim = vectors.shape[1]
        return normalize(vectors), parsed.usage.total_tokens if parsed.usage else None


def _bounded(text: str) -> str:
    """Returns a text cut to the model's limit. A lone surrogate, which JSON cannot represent,
    becomes `?`.
    """
    text = text.encode(errors="replace").decode()
    while not fits(text, REMOTE_LIMITS.text_tokens):
        text = text[: int(len(text) * 0.95 * REMOTE_LIMITS.text_tokens / count_tokens(text))]
    return text


def _batches(rows: Sequence[int], texts: Sequence[str]) -> Iterator[list[int]]:
    """Yields batches of rows in order, each within the limits of texts and tokens.

    Tokens are counted only if the number of bytes exceeds the limit of tokens.
    """
    sizes = {row: len(texts[row].encode()) + 1 for row in rows}  # at least the number of tokens
    if sum(sizes.values()) > REMOTE_LIMITS.request_tokens:
        sizes = {row: count_tokens(texts[row]) for row in rows}
    batch: list[int] = []
    tokens = 0
    for row in rows:
        if batch and (
            len(batch) == REMOTE_LIMITS.texts or tokens + sizes[row] > REMOTE_LIMITS.request_tokens
        ):
            yield batch
            batch = []
            tokens = 0
        batch.append(row)
        tokens += sizes[row]
    if batch:
        yield batch
