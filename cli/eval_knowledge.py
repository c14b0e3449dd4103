"""Scores knowledge graphs for the `eval` command: reads the files, asks, shows the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from cli import render
from cli.common import EXIT_USAGE, fail
from graphrag.app.models import open_model
from graphrag.app.wiring import Services
from graphrag.evaluation.formats import Knowledge, read_knowledge
from graphrag.evaluation.knowledge import ABLATION, ALONE, WITHOUT_GRAPH, load_knowledge, score_knowledge
from graphrag.evaluation.scoring import QueryFileError, Scores
from graphrag.llm.registry import OFFLINE
from graphrag.retrieval.retriever import RetrievalOptions
from graphrag.retrieval.second_look import SecondLook

MAX_REASONS = 10
"""Reasons that are printed one by one."""

LOOKED = "with a second look"
"""The default way, and the settings' model assesses what it finds."""

GRAPH, GRAPH_ALONE = "knowledge", "passages-alone"


@asynccontextmanager
async def second_look_of(services: Services, *, wanted: bool) -> AsyncGenerator[SecondLook | None]:
    """Yield what asks the settings' model, where that is wanted; ends the program where there is none."""
    if not wanted:
        yield None
        return
    async with open_model(services.settings, embedder=services.embedder) as model:
        if model.provider.name == OFFLINE:
            fail("--second-look needs a model: set NODIUS_PROVIDER and its key", code=EXIT_USAGE)
        look = SecondLook(
            retriever=services.retriever,
            provider=model.provider,
            meter=services.meter,
            pricing=model.pricing,
            language=services.settings.language,
        )
        yield look
    tokens = sum(call.tokens.prompt + call.tokens.completion for call in look.used)
    render.note(f"{LOOKED}: {len(look.used):,} calls of {look.provider.model}, {tokens:,} tokens")


async def evaluate_knowledge(
    services: Services,
    form: str,
    file: Path,
    questions: Path | None,
    ways: Mapping[str, RetrievalOptions] | None,
    *,
    look: SecondLook | None,
    as_json: bool,
) -> None:
    """Read, store, embed and score; `ways` None is the ablation. Raises: QueryFileError and others."""
    knowledge = await asyncio.to_thread(_read, form, file, questions)
    results: dict[str, Scores] = {}
    bare = knowledge.passages_alone()
    if ways is None and knowledge.passages and bare != knowledge:
        asked = tuple(question for question in knowledge.questions if question.passages)
        if asked:
            alone = {f"{name}{ALONE}": ABLATION[name] for name in WITHOUT_GRAPH}
            bare = replace(bare, questions=asked)
            results |= await _score(services, bare, GRAPH_ALONE, alone, None, quiet=as_json)
    looked = {LOOKED: RetrievalOptions()} if look else {}
    chosen = {**(ways or ABLATION), **looked}
    results |= await _score(services, knowledge, GRAPH, chosen, look, quiet=as_json)
    last = list(results.values())[-1]
    reasons = (*knowledge.left_out, *last.left_out)
    for reason in reasons[:MAX_REASONS]:
        render.note(f"left out: {reason}")
    if len(reasons) > MAX_REASONS:
        render.note(f"left out: {len(reasons) - MAX_REASONS:,} more")
    if as_json:
        render.json(
            {name: {**s.as_dict(), **s.certainty(), "questions": s.questions} for name, s in results.items()}
        )
    else:
        show_scores(results)
        show_certainty(*list(results.items())[-1])
        render.note(f"{last.questions:,} question{'' if last.questions == 1 else 's'} about {file.name}")


def _read(form: str, file: Path, questions: Path | None) -> Knowledge:
    raw = _bytes(file)
    if questions is None:
        return read_knowledge(form, raw, file.name)
    return read_knowledge(form, raw, file.name, _bytes(questions), questions.name)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as exc:
        raise QueryFileError(file=str(file), reason=exc.strerror or str(exc)) from exc


async def _score(
    services: Services,
    knowledge: Knowledge,
    graph_key: str,
    ways: Mapping[str, RetrievalOptions],
    look: SecondLook | None,
    *,
    quiet: bool,
) -> dict[str, Scores]:
    with render.progress("embedding", quiet=quiet) as update:
        made = await load_knowledge(services.source, services.embedder, knowledge, graph_key, update)
    if not quiet:
        render.note(f"{graph_key}: {len(made.put_nodes):,} nodes, {len(made.put_edges):,} edges")
    done: dict[str, Scores] = {}
    with render.progress("asking", quiet=quiet) as update:
        count = render.counter(update, len(knowledge.questions) * len(ways))
        for name, options in ways.items():
            retriever = look if look and name == LOOKED else services.retriever
            done[name] = await score_knowledge(
                retriever, graph_key, knowledge.questions, options, on_question=count
            )
    return done


def show_scores(results: Mapping[str, Scores]) -> None:
    """Print the table of scores, a row for each way of retrieving."""
    first = next(iter(results.values()))
    heads = [name.replace("mrr", "MRR") for name in first.means]
    rows = [
        [name, *(f"{value:.3f}" for value in s.means.values())]
        + ([] if s.tokens is None else [f"{s.tokens:,.0f}"])
        for name, s in results.items()
    ]
    heads += [] if first.tokens is None else ["tokens"]
    render.table(["retrieval", *heads], rows, numbers=range(1, len(heads) + 1))


def show_certainty(name: str, scores: Scores) -> None:
    """Print how sure the scores of one way are, and what they are for parts of the questions."""
    known = scores.certainty()
    rows = [
        [measure, f"{found['mean']:.3f}", f"{found['low']:.3f}–{found['high']:.3f}"]
        for measure, found in known["intervals"].items()
    ]
    render.line()
    render.table([name, "mean", "95 % interval"], rows, numbers=(1, 2))
    measures = [
        measure for measure in ("recall@5", "recall@10", "hits@1", "mrr") if measure in known["intervals"]
    ]
    parts = [
        [part, f"{found['questions']:,}", *(f"{found[measure]:.3f}" for measure in measures)]
        for part, found in known["splits"].items()
    ]
    if parts:
        render.line()
        render.table(["questions", "number", *measures], parts, numbers=range(1, len(measures) + 2))
