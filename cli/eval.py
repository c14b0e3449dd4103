"""The `eval` command: how well retrieval finds what annotated questions ask for."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cli import render
from cli.common import exit_codes, run, settings_of, usage_error
from cli.eval_answers import (
    AnswerRun,
    export_questions,
    make_answer_cases,
    run_answers,
    show_fact_shares,
)
from cli.options import JsonOption, argument, flag, option
from graphrag.app.models import open_model
from graphrag.app.wiring import Services
from graphrag.evaluation import cells, knowledge, workflows
from graphrag.evaluation.case_formats import ExportFormat
from graphrag.evaluation.formats import FORMATS, NATIVE, read_knowledge
from graphrag.evaluation.formats.knowledge_graph import Knowledge
from graphrag.evaluation.scoring import QueryFileError, Scores
from graphrag.llm.registry import OFFLINE
from graphrag.retrieval.retrieval_result import Mode, RetrievalOptions
from graphrag.retrieval.retriever import Retrieves
from graphrag.retrieval.second_look import SecondLook

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
WORKFLOWS = "workflows"
KINDS = (WORKFLOWS, *FORMATS)
MAX_REASONS = 10
"""Reasons that are printed one by one."""
LOOKED = "with a second look"
"""The default way, and the settings' model assesses what it finds."""
GRAPH, GRAPH_ALONE = "knowledge", "passages-alone"

Ways = Mapping[str, RetrievalOptions]


def run_evaluation(
    file: Annotated[
        Path,
        argument(
            "FILE",
            "Questions about workflows: a JSON list of {workflow, query, relevant: [node names]}. "
            "Or a knowledge graph, see --format. With --cells: a folder of workflows. With --answers: cases, "
            "as TOML or JSON; with --make: a workflow file or the key of a graph.",
        ),
    ],
    folder: Annotated[
        Path | None, option("--workflows", "DIR", "Where the workflow files are.")
    ] = None,
    form: Annotated[
        str, option("--format", "FORMAT", f"What FILE is: {', '.join(KINDS)}.")
    ] = WORKFLOWS,
    questions: Annotated[
        Path | None, option("--questions", "FILE", "Questions about a knowledge graph.")
    ] = None,
    mode: Annotated[Mode | None, option("--mode", "hybrid|vector|text", "Just this mode.")] = None,
    ablation: Annotated[
        bool, flag("--ablation", "Score each part of hybrid retrieval apart as well.")
    ] = False,
    second_look: Annotated[
        bool,
        flag("--second-look", "Score too what the settings' model makes of it: a call a question."),
    ] = False,
    of_cells: Annotated[
        bool, flag("--cells", "Measure instead how many values of each node a context shows.")
    ] = False,
    of_answers: Annotated[
        bool,
        flag(
            "--answers",
            "Score instead the answers and changes of the settings' model, and a baseline.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option("--out", "RUN", "With --answers: store each result here, and skip those stored."),
    ] = None,
    against: Annotated[
        Path | None,
        option(
            "--against",
            "RUN",
            "With --answers: compare with this run; ends with 1 where fewer are right.",
        ),
    ] = None,
    make: Annotated[
        int | None,
        option("--make", "N", "With --answers: print N cases made from the graph.", min=1),
    ] = None,
    contexts: Annotated[
        bool,
        flag("--contexts", "With --answers: measure the facts that contexts show; asks no model."),
    ] = False,
    export: Annotated[
        ExportFormat | None,
        option(
            "--export",
            "promptfoo|inspect",
            "With --answers: print the questions in this tool's format; asks no model.",
        ),
    ] = None,
    agent_alone: Annotated[bool, flag("--no-baseline", "With --answers: the agent alone.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Import, embed and score: recall, hits, MRR, and for workflows tokens per context.

    Works in a database of its own that is removed afterwards.
    """
    if of_answers:
        measured = AnswerRun(
            file=file, folder=folder, out=out, against=against, agent_alone=agent_alone
        )
        with exit_codes(settings_of(None).language):
            if make is not None:
                make_answer_cases(file, make)
            elif export is not None:
                export_questions(file, export)
            elif contexts:
                show_fact_shares(file, folder, as_json=as_json)
            else:
                run_answers(measured, as_json=as_json)
        return
    if out or against or make or export or contexts or agent_alone:
        usage_error(
            "--out, --against, --make, --export, --contexts and --no-baseline go with --answers"
        )
    if of_cells:
        _show_cells(file, as_json=as_json)
        return
    _check(form, folder, questions)
    ways = None if ablation else {m: RetrievalOptions(mode=m) for m in MODES if mode in (None, m)}

    async def score(services: Services) -> None:
        async with second_look_of(services, wanted=second_look) as look:
            if folder is not None:
                await _of_workflows(
                    services, file, folder, ways or workflows.ABLATION, look, as_json=as_json
                )
            else:
                read = await asyncio.to_thread(_read, form, file, questions)
                results = await _of_knowledge(services, read, ways, look, quiet=as_json)
                _show(results, file.name, read.left_out, as_json=as_json)

    with tempfile.TemporaryDirectory(prefix="nodius-eval-") as place:
        run(settings_of(f"sqlite:{place}/eval.db", "eval"), score, creates=True)


def _show_cells(folder: Path, *, as_json: bool) -> None:
    """Prints for each family of node types which share of its values a context shows."""
    if not folder.is_dir():
        usage_error(f"{folder}: --cells needs a folder of workflows")
    nodes, left_out = cells.read_workflow_nodes(folder)
    for reason in left_out[:MAX_REASONS]:
        render.note(f"left out: {reason}")
    scores = cells.score_cells(nodes)
    if not scores:
        usage_error(f"{folder}: no workflow in it has a node with values")
    if as_json:
        render.json({row.family: {**asdict(row), "share": round(row.share, 3)} for row in scores})
        return
    rows = [
        [
            row.family,
            f"{row.nodes:,}",
            f"{row.values:,}",
            f"{row.share:.2f}",
            f"{row.silent / row.nodes:.2f}",
        ]
        for row in scores
    ]
    render.table(
        ["family", "nodes", "values", "shown", "nodes that show none"], rows, numbers=range(1, 5)
    )


def _check(form: str, folder: Path | None, questions: Path | None) -> None:
    """Ends the program for flags that do not go together."""
    if form not in KINDS:
        usage_error(f"--format {form!r}: use one of {', '.join(KINDS)}")
    if form != WORKFLOWS:
        if folder is not None:
            usage_error(f"--workflows does not go with --format {form}")
        if questions is None and form != NATIVE:
            usage_error(f"--questions FILE is missing: what --format {form} is asked")
    elif questions is not None:
        usage_error("--questions goes with a knowledge graph: say its --format")
    elif folder is None:
        usage_error("--workflows DIR is missing: the workflows that FILE asks about")
    elif not folder.is_dir():
        usage_error(f"--workflows {folder}: there is no such folder")


@asynccontextmanager
async def second_look_of(services: Services, *, wanted: bool) -> AsyncGenerator[SecondLook | None]:
    """Yield what asks the settings' model, where that is wanted; ends the program where
    there is none.
    """
    if not wanted:
        yield None
        return
    async with open_model(services.settings, embedder=services.embedder) as model:
        if model.provider.name == OFFLINE:
            usage_error("--second-look needs a model: set NODIUS_PROVIDER and its key")
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


async def _asked(
    services: Services,
    score: Callable[..., Awaitable[Scores]],
    number: int,
    ways: Ways,
    look: Retrieves | None,
    *,
    quiet: bool,
) -> dict[str, Scores]:
    """Return the scores of each way; `score` gets a retriever, the way and
    what counts questions.
    """
    chosen = {**ways, **({LOOKED: RetrievalOptions()} if look else {})}
    results: dict[str, Scores] = {}
    with render.progress("asking", quiet=quiet) as update:
        count = render.counter(update, number * len(chosen))
        for name, options in chosen.items():
            retriever = look if look and name == LOOKED else services.retriever
            results[name] = await score(retriever, options=options, on_question=count)
    return results


async def _of_workflows(
    services: Services,
    file: Path,
    folder: Path,
    ways: Ways,
    look: Retrieves | None,
    *,
    as_json: bool,
) -> None:
    queries = await asyncio.to_thread(workflows.read_queries, file)
    with render.progress("importing and embedding", quiet=as_json) as update:
        count = render.counter(update, len({query.workflow for query in queries}))
        graph_keys, left_out = await workflows.load_workflows(
            services.source, services.embedder, queries, folder, count
        )
    score = partial(workflows.evaluate, queries=queries, graph_keys=graph_keys)
    results = await _asked(services, score, len(queries), ways, look, quiet=as_json)
    about = f"{len(graph_keys)} workflows"
    _show(results, about, left_out, as_json=as_json, graphs=len(graph_keys))


async def _of_knowledge(
    services: Services, read: Knowledge, ways: Ways | None, look: Retrieves | None, *, quiet: bool
) -> dict[str, Scores]:
    """Store, embed and score; `ways` None is the ablation, on the passages alone as well."""

    async def scored(
        read: Knowledge, key: str, ways: Ways, look: Retrieves | None
    ) -> dict[str, Scores]:
        with render.progress("embedding", quiet=quiet) as update:
            made = await knowledge.load_knowledge(
                services.source, services.embedder, read, key, update
            )
        if not quiet:
            render.note(f"{key}: {len(made.put_nodes):,} nodes, {len(made.put_edges):,} edges")
        score = partial(knowledge.score_knowledge, graph_key=key, questions=read.questions)
        return await _asked(services, score, len(read.questions), ways, look, quiet=quiet)

    results: dict[str, Scores] = {}
    bare = read.passages_alone()
    asked = tuple(one for one in read.questions if one.passages)
    if ways is None and asked and read.passages and bare != read:
        alone = {
            f"{name}{knowledge.ALONE}": knowledge.ABLATION[name] for name in knowledge.WITHOUT_GRAPH
        }
        results |= await scored(replace(bare, questions=asked), GRAPH_ALONE, alone, None)
    return results | await scored(read, GRAPH, ways or knowledge.ABLATION, look)


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


def _show(
    results: Mapping[str, Scores],
    about: str,
    left_out: Sequence[str],
    *,
    as_json: bool,
    graphs: int | None = None,
) -> None:
    """Print the scores; `graphs`: of so many workflows."""
    name, last = list(results.items())[-1]
    reasons = (*left_out, *last.left_out)
    for reason in reasons[:MAX_REASONS]:
        render.note(f"left out: {reason}")
    if len(reasons) > MAX_REASONS:
        render.note(f"left out: {len(reasons) - MAX_REASONS:,} more")
    if as_json:
        render.json({way: _document(scores, graphs) for way, scores in results.items()})
        return
    show_scores(results)
    show_certainty(name, last)
    render.note(f"{last.questions:,} question{'' if last.questions == 1 else 's'} about {about}")


def _document(scores: Scores, graphs: int | None) -> dict[str, Any]:
    found = {**scores.as_dict(), **scores.certainty()}
    if graphs is None:
        return {**found, "questions": scores.questions}
    tokens = None if scores.tokens is None else round(scores.tokens, 1)
    return {**found, "tokens_per_context": tokens, "queries": scores.questions, "graphs": graphs}


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
        measure
        for measure in ("recall@5", "recall@10", "hits@1", "mrr")
        if measure in known["intervals"]
    ]
    parts = [
        [part, f"{found['questions']:,}", *(f"{found[measure]:.3f}" for measure in measures)]
        for part, found in known["splits"].items()
    ]
    if parts:
        render.line()
        render.table(["questions", "number", *measures], parts, numbers=range(1, len(measures) + 2))
