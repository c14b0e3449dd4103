"""What spans of OpenTelemetry cost a turn: without them, with nobody who collects
them, and collected.

Run: `make bench-tracing`, or `python -m tests.benchmarks.tracing --help`. The model answers at once
and the database is a file, so a turn is as short as turns are; what is collected is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from datasources import store_spans
from datasources.sqlite import pool
from graphrag.agent import turn_trace
from tests.support.databases import nba_file
from tests.support.scripted_provider import Says, ScriptedProvider, call
from tests.support.service import GRAPH, service

TURN = (Says(calls=[call("read_node_detail", {"nodeKey": "fetch-api"})]), "It is logged.")


class _Nowhere(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


@contextmanager
def without() -> Iterator[None]:
    """Take the instrumentation out."""

    async def plain(work: Callable[[], Any], *_: Any) -> Any:
        return await work()

    with (
        patch.object(turn_trace, "_TRACER", trace.NoOpTracer()),
        patch.object(turn_trace.TurnTrace, "within", lambda _: nullcontext()),
        patch.object(pool, "traced", plain),
    ):
        yield


@contextmanager
def collected(provider: TracerProvider) -> Iterator[None]:
    tracer = provider.get_tracer("nodius-graphrag")
    with patch.object(turn_trace, "_TRACER", tracer), patch.object(store_spans, "_TRACER", tracer):
        yield


async def measure(turns: int) -> dict[str, list[float]]:
    """Return the times of turns, by way. Units: milliseconds."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    ways: dict[str, Callable[[], Any]] = {
        "without": without,
        "nobody collects": nullcontext,
        "collected": lambda: collected(provider),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    with TemporaryDirectory() as folder, ScriptedProvider() as model:
        database = f"sqlite:{await nba_file(Path(folder))}"
        async with service(model, rate_limit=0, db=database) as running, running.as_() as ed:
            for number in range(turns + 5):
                for name in random.sample(list(ways), len(ways)):
                    model.play(*TURN)
                    with ways[name]():
                        began = time.perf_counter()
                        body = {"graphKey": GRAPH, "message": "Who logs errors?"}
                        answer = await ed.post("/api/ai/chat", json=body)
                        took = (time.perf_counter() - began) * 1000
                    assert answer.status_code == 200, answer.text
                    if number >= 5:  # the first ones load what the later ones use
                        times[name].append(took)
    provider.shutdown()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=300, help="of each way")
    times = asyncio.run(measure(parser.parse_args().turns))
    base = times["without"]
    print(f"{'':18}{'median ms':>10}{'more':>8}")
    for name, found in times.items():
        more = statistics.median(
            b - a for a, b in zip(base, found, strict=True)
        ) / statistics.median(base)
        print(f"{name:18}{statistics.median(found):10.2f}{more:8.1%}")


if __name__ == "__main__":
    main()
