"""Reranks the result of a retrieval with one model call, and searches again for missing facts.

The model gets the best candidates, numbered, and calls one tool with the numbers of the nodes that
the answer needs and a query for facts that no candidate contains. The chosen nodes come first, then
the results of that query, then the others. After any failure (no tool call, unknown numbers, an
endless answer, a limit, a failing service) the first ranking is kept. Text in nodes is data: the
model's answer can only choose among the candidates and search the same graph.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import Field, ValidationError

from datasources.base import GraphDataSource
from datasources.text import node_label
from datasources.types import ScoredNode
from graphrag.i18n import Language
from graphrag.llm.base import (
    Chunk,
    LLMProvider,
    ModelOptions,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCallReady,
    UserMessage,
)
from graphrag.llm.errors import ModelError
from graphrag.llm.metered import ModelRequest, metered_call
from graphrag.llm.model_text import ModelText
from graphrag.llm.registry import Pricing
from graphrag.llm.tokens import prompt_tokens
from graphrag.llm.usage_meter import NOBODY, CallUsage, Payer, UsageMeter
from graphrag.prompts.library import load_phrases
from graphrag.retrieval.retrieval_result import GRAPH_ORDER, Retrieval, RetrievalOptions
from graphrag.retrieval.retriever import Retriever
from graphrag.retrieval.turn_context import asks_about_graph
from tools.arguments import MalformedArguments, parameters_of, parse_arguments
from tools.base import ToolArguments
from tools.compact import cut, cut_name
from tools.read_tools.views import digest
from tools.toon import encode_table

CANDIDATES = 40
HOP = 10  # nodes of the second search that come before the other nodes of the first
MAX_CHARS = 400  # of the data of one candidate
PROMPT_TOKENS = 8_000  # candidates are left out to stay below this
ANSWER_TOKENS = 1_000
ANSWER_CHARS = 20_000
PATIENCE_S = 20.0
FAILED = "second-look-failed"
TOOL = "assess"

log = logging.getLogger(__name__)


class Assessment(ToolArguments):
    """The arguments of the tool call with which the model assesses the candidates."""

    relevant: list[Annotated[int, Field(strict=False)]] = Field(
        max_length=10 * CANDIDATES, description="Numbers of the nodes that the answer needs."
    )
    missing: str = Field(
        default="",
        max_length=1_000,
        description="Query for what is still to be looked up; empty: nothing.",
    )


_FUNCTION = {
    "name": TOOL,
    "description": "Say what helps.",
    "parameters": parameters_of(Assessment),
}
_SCHEMA = {"type": "function", "function": _FUNCTION}


@dataclass(slots=True, kw_only=True)
class SecondLook:
    """A retriever whose results are reranked by a model. `used` is the usage of its calls.

    Units: `ms` is the duration of the last call. `failed` is the name of its error, "" on success.
    """

    retriever: Retriever
    provider: LLMProvider
    meter: UsageMeter
    pricing: Pricing
    payer: Payer = NOBODY
    language: Language = "en"
    used: list[CallUsage] = field(default_factory=list[CallUsage])
    failed: str = ""
    ms: float = 0.0

    @property
    def source(self) -> GraphDataSource:
        return self.retriever.source

    async def retrieve(
        self, graph_key: str, question: str, options: RetrievalOptions | None = None
    ) -> Retrieval:
        """Returns the nodes and edges that matter for the question.

        Raises: GraphNotFound, SourceError.
        """
        options = options or self.retriever.options
        first = await self.retriever.retrieve(graph_key, question, options)
        if not first.nodes or GRAPH_ORDER in first.notes or asks_about_graph(question):
            return first
        wider = replace(options, max_nodes=max(CANDIDATES, options.max_nodes))
        wide = await self.retriever.retrieve(graph_key, question, wider)
        assessed = await self._assessed(question, wide.nodes[:CANDIDATES])
        if assessed is None:
            return replace(first, notes=(*first.notes, f"{FAILED}: {self.failed}"))
        candidates = enumerate(wide.nodes[:CANDIDATES], start=1)
        chosen = [scored for number, scored in candidates if number in assessed.relevant]
        further: Retrieval | None = None
        if assessed.missing.strip():
            further = await self.retriever.retrieve(graph_key, assessed.missing, options)
        if further is None or GRAPH_ORDER in further.notes:
            further = replace(wide, nodes=(), configs={})
        if not chosen and not further.nodes:
            return first
        return await self._joined(wide, chosen, further, options.max_nodes)

    async def _assessed(self, question: str, candidates: Sequence[ScoredNode]) -> Assessment | None:
        """Returns the model's assessment, or None after a failure, which is stored in `failed`."""
        began = time.perf_counter()
        self.failed = ""
        assessed: Assessment | None = None
        try:
            async with asyncio.timeout(PATIENCE_S):
                request, shown = self._request(question, candidates)
                arguments = await self._asked(request)
            assessment = Assessment.model_validate(parse_arguments(arguments).values)
            shown_numbers = [number for number in assessment.relevant if number <= shown]
            assessed = assessment.model_copy(update={"relevant": shown_numbers})
        except (ModelError, TimeoutError, MalformedArguments, ValidationError) as exc:
            self.failed = type(exc).__name__
        self.ms = (time.perf_counter() - began) * 1e3
        facts = {
            "candidates": len(candidates),
            "relevant": len(assessed.relevant) if assessed else 0,
        }
        log.info("second_look", extra=facts | {"failed": self.failed, "ms": round(self.ms, 2)})
        return assessed

    def _request(self, question: str, candidates: Sequence[ScoredNode]) -> tuple[ModelRequest, int]:
        """Returns the request with as many candidates as fit, and their number."""
        rows = [
            {
                "number": number,
                "type": cut(scored.node.type, 80),
                "name": cut_name(node_label(scored.node), 80),
                "holds": digest(scored.node, MAX_CHARS),
            }
            for number, scored in enumerate(candidates, start=1)
        ]
        rules = load_phrases("phrases", self.language)["second_look"].render({"tool": TOOL})
        while True:
            table = encode_table("candidates", rows, ["number", "type", "name", "holds"])
            messages = [SystemMessage(content=rules), UserMessage(content=f"{table}\n\n{question}")]
            if len(rows) <= 1 or prompt_tokens(messages, [_SCHEMA]) <= PROMPT_TOKENS:
                break
            rows = rows[: len(rows) * 3 // 4]
        options = ModelOptions(max_tokens=ANSWER_TOKENS, tool_choice="required")
        return ModelRequest(messages=messages, tools=[_SCHEMA], options=options), len(rows)

    async def _asked(self, request: ModelRequest) -> str:
        """Returns the arguments of the first tool call. Reading stops after `ANSWER_CHARS`.

        Raises: ModelError, MalformedArguments if there is no call.
        """
        parser = ModelText((TOOL,))
        chars = 0
        stream = self.provider.stream(request.messages, request.tools, request.options)
        pays = self.payer
        used = self.used
        metered = metered_call(
            self.provider, request, self.meter, self.pricing, payer=pays, used=used
        )
        arguments: list[str] = []
        async with metered as call, aclosing(stream) as chunks:
            async for chunk in chunks:
                call.feed(chunk)
                if isinstance(chunk, TextDelta | ReasoningDelta):
                    chars += len(chunk.text)
                arguments += _asked_for(parser.feed(chunk))
                if chars > ANSWER_CHARS:
                    break
        arguments += _asked_for(parser.end(is_cut=chars > ANSWER_CHARS))
        if not arguments:
            raise MalformedArguments(reason=f"{TOOL} was not called")
        return arguments[0]

    async def _joined(
        self, wide: Retrieval, chosen: Sequence[ScoredNode], further: Retrieval, most: int
    ) -> Retrieval:
        """Returns the chosen nodes, then those of the second search, then the others.

        The edges between them are read again.
        """
        first = [
            replace(scored, reasons=("assessed", *scored.reasons), weak=False) for scored in chosen
        ]
        more = [
            replace(scored, reasons=("missing", *scored.reasons)) for scored in further.nodes[:HOP]
        ]
        by_key: dict[str, ScoredNode] = {}
        for scored in (*first, *more, *wide.nodes):
            by_key.setdefault(scored.node.key, scored)
        keys = list(by_key)[:most]
        inside = await self.source.get_neighborhood(
            wide.graph.key, keys, max_depth=0, limit=len(keys)
        )
        configs = {**wide.configs, **further.configs}
        types = {by_key[key].node.type for key in keys}
        return replace(
            wide,
            nodes=tuple(by_key[key] for key in keys),
            edges=tuple(inside.edges),
            configs={name: config for name, config in configs.items() if name in types},
        )


def _asked_for(chunks: Sequence[Chunk]) -> list[str]:
    """Returns the arguments of the tool calls in some chunks."""
    calls = (chunk.call for chunk in chunks if isinstance(chunk, ToolCallReady))
    return [call.arguments for call in calls if call.name == TOOL]
