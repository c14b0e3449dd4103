"""The `eval` command: measures retrieval, contexts and answers on annotated questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import usage_error
from cli.eval_answers import AnswerOptions, answers_output, in_scratch
from cli.inputs import bytes_of
from cli.options import OptionGroup, Printing, argument, flag, option
from cli.output import Output
from graphrag.app.models import open_model
from graphrag.app.wiring import Services
from graphrag.evaluation import cells, workflows
from graphrag.evaluation.formats import FORMATS, NATIVE, read_knowledge
from graphrag.evaluation.formats.knowledge_graph import Knowledge
from graphrag.evaluation.retrieval_runs import SECOND_LOOK, RetrievalReport, RetrievalRun, Ways
from graphrag.evaluation.scoring import Scores
from graphrag.llm.registry import OFFLINE
from graphrag.retrieval.retrieval_result import Mode, RetrievalOptions
from graphrag.retrieval.second_look import SecondLook

MODES: tuple[Mode, ...] = ("hybrid", "vector", "text")
WORKFLOWS = "workflows"
KINDS = (WORKFLOWS, *FORMATS)
MAX_REASONS = 10  # that are printed one by one
MEASURES = ("recall@5", "recall@10", "hits@1", "mrr")  # shown for parts of the questions


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalEvaluation(OptionGroup):
    """The questions, and the ways of retrieving that are scored."""

    folder: Annotated[
        Path | None, option("--workflows", "DIR", "The folder of the workflow files.")
    ] = None
    form: Annotated[
        str, option("--format", "FORMAT", f"The format of FILE: {', '.join(KINDS)}.")
    ] = WORKFLOWS
    questions: Annotated[
        Path | None, option("--questions", "FILE", "Questions about a knowledge graph.")
    ] = None
    mode: Annotated[Mode | None, option("--mode", "hybrid|vector|text", "Only this mode.")] = None
    ablation: Annotated[
        bool, flag("--ablation", "Also score each part of hybrid retrieval alone.")
    ] = False
    second_look: Annotated[
        bool,
        flag(
            "--second-look", "Also let the settings' model assess the results: a call a question."
        ),
    ] = False
    of_cells: Annotated[
        bool, flag("--cells", "Measure instead how many values of each node a context shows.")
    ] = False

    @property
    def ways(self) -> Ways | None:
        """The ways to score, None for each part of hybrid retrieval."""
        if self.ablation:
            return None
        return {mode: RetrievalOptions(mode=mode) for mode in MODES if self.mode in (None, mode)}

    def check(self) -> None:
        """Ends the program for options that exclude each other or are missing."""
        if self.form not in KINDS:
            usage_error(f"--format {self.form!r}: use one of {', '.join(KINDS)}")
        if self.form != WORKFLOWS:
            if self.folder is not None:
                usage_error(f"--workflows does not go with --format {self.form}")
            if self.questions is None and self.form != NATIVE:
                usage_error(f"--questions FILE is missing: the questions for --format {self.form}")
        elif self.questions is not None:
            usage_error("--questions is for a knowledge graph: give its --format")
        elif self.folder is None:
            usage_error("--workflows DIR is missing: the workflows that the questions are about")
        elif not self.folder.is_dir():
            usage_error(f"--workflows {self.folder}: there is no such folder")


@command()
def run_evaluation(
    common: Printing,
    file: Annotated[
        Path,
        argument(
            "FILE",
            "Questions about workflows: a JSON list of {workflow, query, relevant: [node names]}. "
            "Or a knowledge graph, see --format. With --cells: a folder of workflows. With --answers: cases, "
            "as TOML or JSON; with --make: a workflow file or the key of a graph.",
        ),
    ],
    retrieval: RetrievalEvaluation,
    answers: AnswerOptions,
) -> Output:
    """Import, embed and score: recall, hits, MRR, and for workflows tokens per context.

    Works in a database of its own that is removed afterwards.
    """
    if answers.of_answers:
        return answers_output(common, file, retrieval.folder, answers)
    answers.check_unused()
    if retrieval.of_cells:
        return _cells(file)
    retrieval.check()
    report = in_scratch(common, partial(_scored, file, retrieval, quiet=common.as_json))
    for reason in report.reasons[:MAX_REASONS]:
        render.note(f"left out: {reason}")
    if len(report.reasons) > MAX_REASONS:
        render.note(f"left out: {len(report.reasons) - MAX_REASONS:,} more")
    return Output(document=report.as_dict(), text=partial(_show, report))


async def _scored(
    file: Path, options: RetrievalEvaluation, services: Services, *, quiet: bool
) -> RetrievalReport:
    async with second_look_of(services, wanted=options.second_look) as look:
        evaluation = RetrievalRun(
            source=services.source,
            embedder=services.embedder,
            retriever=services.retriever,
            second_look=look,
            progress=partial(render.progress, quiet=quiet),
            on_stored=(lambda _: None) if quiet else render.note,
        )
        if options.folder is not None:
            queries = await asyncio.to_thread(workflows.read_queries, file)
            return await evaluation.workflows(queries, options.folder, options.ways)
        read = await asyncio.to_thread(_read, options.form, file, options.questions)
        return await evaluation.knowledge(read, file.name, options.ways)


def _read(form: str, file: Path, questions: Path | None) -> Knowledge:
    raw = bytes_of(file)
    if questions is None:
        return read_knowledge(form, raw, file.name)
    return read_knowledge(form, raw, file.name, bytes_of(questions), questions.name)


@asynccontextmanager
async def second_look_of(services: Services, *, wanted: bool) -> AsyncGenerator[SecondLook | None]:
    """Yields a retriever whose results the settings' model assesses, None unless wanted. Ends the
    program without a model.
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
    calls = f"{len(look.used):,} calls of {look.provider.model}, {tokens:,} tokens"
    render.note(f"{SECOND_LOOK}: {calls}")


def _cells(folder: Path) -> Output:
    """Returns which share of its values a context shows, for each family of node types."""
    if not folder.is_dir():
        usage_error(f"{folder}: --cells needs a folder of workflows")
    nodes, left_out = cells.read_workflow_nodes(folder)
    for reason in left_out[:MAX_REASONS]:
        render.note(f"left out: {reason}")
    scores = cells.score_cells(nodes)
    if not scores:
        usage_error(f"{folder}: no workflow in it has a node with values")
    columns = ["family", "nodes", "values", "shown", "nodes that show none"]
    rows = [_cell_row(row) for row in scores]
    return Output(
        document={row.family: {**asdict(row), "share": round(row.share, 3)} for row in scores},
        text=partial(render.table, columns, rows, numbers=range(1, 5)),
    )


def _cell_row(row: cells.CellScores) -> list[str]:
    counts = [f"{row.nodes:,}", f"{row.values:,}"]
    return [row.family, *counts, f"{row.share:.2f}", f"{row.silent / row.nodes:.2f}"]


def _show(report: RetrievalReport) -> None:
    *_, (name, last) = report.scores.items()
    show_scores(report.scores)
    show_certainty(name, last)
    plural = "" if last.questions == 1 else "s"
    render.note(f"{last.questions:,} question{plural} about {report.about}")


def show_scores(results: Mapping[str, Scores]) -> None:
    """Prints the table of scores, a row for each way of retrieving."""
    first = next(iter(results.values()))
    heads = [name.replace("mrr", "MRR") for name in first.means]
    heads += [] if first.tokens is None else ["tokens"]
    rows = [[name, *_score_cells(scores)] for name, scores in results.items()]
    render.table(["retrieval", *heads], rows, numbers=range(1, len(heads) + 1))


def _score_cells(scores: Scores) -> Sequence[str]:
    means = [f"{value:.3f}" for value in scores.means.values()]
    return means if scores.tokens is None else [*means, f"{scores.tokens:,.0f}"]


def show_certainty(name: str, scores: Scores) -> None:
    """Prints the 95 % intervals of the scores of one way, and its scores for parts of the
    questions.
    """
    certainty = scores.certainty()
    intervals = certainty["intervals"]
    rows = [
        [measure, f"{one['mean']:.3f}", f"{one['low']:.3f}–{one['high']:.3f}"]
        for measure, one in intervals.items()
    ]
    render.line()
    render.table([name, "mean", "95 % interval"], rows, numbers=(1, 2))
    measures = [measure for measure in MEASURES if measure in intervals]
    parts = [
        [part, f"{one['questions']:,}", *(f"{one[measure]:.3f}" for measure in measures)]
        for part, one in certainty["splits"].items()
    ]
    if parts:
        render.line()
        render.table(["questions", "number", *measures], parts, numbers=range(1, len(measures) + 2))
