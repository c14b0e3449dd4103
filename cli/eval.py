"""The `eval` command: how well retrieval finds what annotated questions ask for."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cli import render
from cli.common import EXIT_USAGE, JsonOption, argument, fail, flag, option, run, settings_of
from cli.eval_knowledge import LOOKED, evaluate_knowledge, second_look_of, show_certainty, show_scores
from graphrag.app.wiring import Services
from graphrag.evaluation.formats import FORMATS
from graphrag.evaluation.scoring import Scores
from graphrag.evaluation.workflows import ABLATION, AnnotatedQuery, evaluate, load_workflows, read_queries
from graphrag.retrieval.retriever import Mode, RetrievalOptions, Retrieves

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
WORKFLOWS = "workflows"
KINDS = (WORKFLOWS, *FORMATS)


FileArgument = Annotated[
    Path,
    argument(
        "FILE",
        "Questions about workflows: a JSON list of {workflow, query, relevant: [node names]}. "
        "Or a knowledge graph, see --format.",
    ),
]


def run_evaluation(
    file: FileArgument,
    workflows: Annotated[Path | None, option("--workflows", "DIR", "Where the workflow files are.")] = None,
    form: Annotated[str, option("--format", "FORMAT", f"What FILE is: {', '.join(KINDS)}.")] = WORKFLOWS,
    questions: Annotated[
        Path | None, option("--questions", "FILE", "Questions about a knowledge graph.")
    ] = None,
    mode: Annotated[str | None, option("--mode", "hybrid|vector|text", "Just this mode.")] = None,
    ablation: Annotated[
        bool, flag("--ablation", "Score each part of hybrid retrieval apart as well.")
    ] = False,
    second_look: Annotated[
        bool, flag("--second-look", "Score too what the settings' model makes of it: a call a question.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Import, embed and score: recall, hits, MRR, and for workflows tokens per context.

    Works in a database of its own that is removed afterwards.
    """
    if mode is not None and mode not in MODES:
        fail(f"--mode {mode!r}: use one of {', '.join(MODES)}", code=EXIT_USAGE)
    kind = _kind(form, workflows, questions)
    ways = None if ablation else {m: RetrievalOptions(mode=m) for m in MODES if mode in (None, m)}

    async def score(services: Services) -> None:
        async with second_look_of(services, wanted=second_look) as look:
            if kind is not None:
                await evaluate_knowledge(services, kind, file, questions, ways, look=look, as_json=as_json)
            elif workflows is not None:
                await _of_workflows(services, file, workflows, ways or ABLATION, look, as_json=as_json)

    with tempfile.TemporaryDirectory(prefix="nodius-eval-") as folder:
        run(settings_of(f"sqlite:{folder}/eval.db", "eval"), score, creates=True)


def _kind(form: str, workflows: Path | None, questions: Path | None) -> str | None:
    """Return the format of a knowledge graph, None for workflows. Ends the program for wrong flags."""
    if form == WORKFLOWS:
        if questions is not None:
            fail("--questions goes with a knowledge graph: say its --format", code=EXIT_USAGE)
        if workflows is None:
            fail("--workflows DIR is missing: the workflows that FILE asks about", code=EXIT_USAGE)
        if not workflows.is_dir():
            fail(f"--workflows {workflows}: there is no such folder", code=EXIT_USAGE)
        return None
    kind = FORMATS.get(form)
    if kind is None:
        fail(f"--format {form!r}: use one of {', '.join(KINDS)}", code=EXIT_USAGE)
    if workflows is not None:
        fail(f"--workflows does not go with --format {form}", code=EXIT_USAGE)
    if questions is None and not kind.has_questions:
        fail(f"--questions FILE is missing: what --format {form} is asked", code=EXIT_USAGE)
    return form


async def _of_workflows(
    services: Services,
    file: Path,
    workflows: Path,
    ways: Mapping[str, RetrievalOptions],
    look: Retrieves | None,
    *,
    as_json: bool,
) -> None:
    queries = await asyncio.to_thread(read_queries, file)
    graph_keys, left_out = await _load(services, queries, workflows, quiet=as_json)
    results: dict[str, Scores] = {}
    chosen = {**ways, **({LOOKED: RetrievalOptions()} if look else {})}
    with render.progress("asking", quiet=as_json) as update:
        count = render.counter(update, len(queries) * len(chosen))
        for name, options in chosen.items():
            retriever = look if look and name == LOOKED else services.retriever
            results[name] = await evaluate(retriever, queries, graph_keys, options, on_query=count)
    one = next(iter(results.values()))
    for reason in (*left_out, *one.left_out):
        render.note(f"left out: {reason}")
    if as_json:
        render.json({name: _as_dict(scores, len(graph_keys)) for name, scores in results.items()})
        return
    show_scores(results)
    show_certainty(*list(results.items())[-1])
    render.note(f"{one.questions} questions about {len(graph_keys)} workflows")


async def _load(
    services: Services, queries: list[AnnotatedQuery], workflows: Path, *, quiet: bool
) -> tuple[dict[str, str], list[str]]:
    total = len({query.workflow for query in queries})
    with render.progress("importing and embedding", quiet=quiet) as update:
        count = render.counter(update, total)
        return await load_workflows(services.source, services.embedder, queries, workflows, count)


def _as_dict(scores: Scores, graphs: int) -> dict[str, Any]:
    tokens = None if scores.tokens is None else round(scores.tokens, 1)
    return {
        **scores.as_dict(),
        **scores.certainty(),
        "tokens_per_context": tokens,
        "queries": scores.questions,
        "graphs": graphs,
    }
