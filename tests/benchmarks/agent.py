"""Measures what a turn costs beside the model.

A scripted model answers at once: first with two reads, then with words. The graph is the NBA sample
in a database file with embedded nodes; each turn is the first of its thread and asks something
else, so no retrieval is remembered.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import numpy as np

from cli.demo import GRAPH
from graphrag.agent.events import Completed
from graphrag.app.model_services import open_agent
from graphrag.app.wiring import Services
from graphrag.config import load_settings
from graphrag.embedding.refresh import embed_nodes
from graphrag.importers.exchange import import_bytes
from graphrag.llm.base import (
    AssistantMessage,
    Chunk,
    Finished,
    Message,
    TextDelta,
    ToolCall,
    ToolMessage,
    UsageReport,
)
from mock_data import load_text
from tests.support.opened import open_services
from tests.support.scripted_provider import FixedModel, calls_chunks

WARM_UP = 20
WORDS = (
    "errors",
    "players",
    "active",
    "fetch",
    "table",
    "season",
    "points",
    "filter",
    "sort",
    "log",
)
ANSWER = "Errors are logged by {{node:error-handler}}, after {{node:fetch-api}} failed. " * 4


class InstantModel(FixedModel):
    """Two reads, then an answer in pieces of five characters."""

    name, model, context_window = "instant", "instant", 128_000

    async def answer(self, messages: Sequence[Message]) -> AsyncGenerator[Chunk]:
        yield UsageReport(prompt=3_000, completion=50)
        if any(isinstance(message, ToolMessage) for message in messages[-2:]):
            for place in range(0, len(ANSWER), 5):
                yield TextDelta(text=ANSWER[place : place + 5])
            yield Finished(reason="stop")
            return
        number = sum(isinstance(message, AssistantMessage) for message in messages)
        calls = (
            ToolCall(id=f"a{number}", name="search_nodes", arguments='{"query": "fetch error"}'),
            ToolCall(id=f"b{number}", name="read_node_detail", arguments='{"key": "fetch-api"}'),
        )
        for piece in calls_chunks(*calls):
            yield piece
        yield Finished(reason="tool_calls")


async def measure(services: Services, turns: int) -> dict[str, float]:
    """Return p50 and p95 of whole turns. Units: milliseconds."""
    took: list[float] = []
    person = services.local_person()
    async with open_agent(services, InstantModel()) as agent:
        for number in range(WARM_UP + turns):
            words = [WORDS[(number * step + step) % len(WORDS)] for step in (1, 3, 7)]
            question = f"Where do {' and '.join(words)} go in case {number}?"
            started = time.perf_counter()
            events = [event async for event in agent.run(None, GRAPH, question, person)]
            took.append((time.perf_counter() - started) * 1e3)
            assert isinstance(events[-1], Completed), events[-1]
    p50, p95 = np.percentile(took[WARM_UP:], [50, 95])
    return {"turns": turns, "p50_ms": round(float(p50), 2), "p95_ms": round(float(p95), 2)}


async def main(turns: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(db=f"sqlite:{Path(folder, 'bench.db')}", embeddings="local")
        async with open_services(settings) as services:
            await import_bytes(
                services.approvals,
                load_text("nba.json").encode(),
                services.local_person(),
                file_name="nba.json",
                graph_key=GRAPH,
            )
            assert services.embedder is not None
            await embed_nodes(services.source, services.embedder, graph_keys=[GRAPH])
            return await measure(services, turns)
