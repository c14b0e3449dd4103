"""The command `eval --answers`: measures answers and changes, makes and exports cases, and measures
the facts in contexts.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from cli import render
from cli.common import EXIT_FAILED, exit_codes, fail, run, usage_error
from cli.options import OptionGroup, Printing, flag, option
from cli.output import Output
from graphrag.app.model_services import agent_of
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services
from graphrag.evaluation import answer_cases, answer_report
from graphrag.evaluation.answer_cases import CaseGraph
from graphrag.evaluation.answer_runs import WAYS, AnswerRow, AnswerSetting, Way, run_cases
from graphrag.evaluation.case_formats import EXPORTS, ExportFormat, exportable
from graphrag.evaluation.context_facts import ContextFacts, FactShares, context_facts
from graphrag.evaluation.made_cases import make_cases
from graphrag.evaluation.measurable_cases import MeasurableCases, read_measurable

T = TypeVar("T")

WORKSPACE = "eval"
MAX_FAILURES = 3  # of the model in a row; then the command ends, and results so far are stored
MAX_REASONS = 10  # that are printed one by one
COLUMNS: Final = (
    "cases",
    "way",
    "number",
    *answer_report.VERDICTS,
    "marked",
    "95 % of right",
    "rounds",
    "calls",
    "malformed",
    "tokens in",
    "out",
    "USD",
    "seconds",
)
FACT_COLUMNS: Final = (
    "questions",
    "all facts",
    "share of facts",
    "95 % interval",
    "tokens",
    "whole graphs",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(OptionGroup):
    """What is measured of answers, where results are stored, and the run to compare with."""

    of_answers: Annotated[
        bool,
        flag(
            "--answers",
            "Score instead the answers and changes of the settings' model, and a baseline.",
        ),
    ] = False
    out: Annotated[
        Path | None,
        option("--out", "RUN", "With --answers: store each result here, and skip stored ones."),
    ] = None
    against: Annotated[
        Path | None,
        option(
            "--against",
            "RUN",
            "With --answers: compare with this run; ends with 1 if fewer are right.",
        ),
    ] = None
    make: Annotated[
        int | None,
        option("--make", "N", "With --answers: print N cases made from the graph.", min=1),
    ] = None
    contexts: Annotated[
        bool,
        flag("--contexts", "With --answers: measure the facts that contexts show; asks no model."),
    ] = False
    export: Annotated[
        ExportFormat | None,
        option(
            "--export",
            "promptfoo|inspect",
            "With --answers: print the questions in this tool's format; asks no model.",
        ),
    ] = None
    agent_alone: Annotated[bool, flag("--no-baseline", "With --answers: only the agent.")] = False

    @property
    def ways(self) -> Sequence[Way]:
        return WAYS[:1] if self.agent_alone else WAYS

    def check_unused(self) -> None:
        """Ends the program for an option that needs --answers."""
        if any((self.out, self.against, self.make, self.export, self.contexts, self.agent_alone)):
            usage_error(
                "--out, --against, --make, --export, --contexts and --no-baseline go with --answers"
            )


def answers_output(
    common: Printing, file: Path, folder: Path | None, options: AnswerOptions
) -> Output:
    """Returns the result of `eval --answers` with these options."""
    with exit_codes(common.settings().language):
        if options.make is not None:
            return _made_cases(common, file, options.make)
        if options.export is not None:
            return _exported(file, options.export)
        cases = read_measurable(
            file, folder, workspace=WORKSPACE, stored=partial(_stored_graph, common)
        )
        if not cases.cases:
            fail(cases.left_out[0])
        if not common.as_json:
            for reason in cases.left_out[:MAX_REASONS]:
                render.note(f"left out: {reason}")
        if options.contexts:
            return _fact_shares(common, file, cases)
        return _measured(common, cases, options)


def in_scratch(common: Printing, work: Callable[[Services], Coroutine[Any, Any, T]]) -> T:
    """Returns the result of `work` with the services of an empty database, which is removed."""
    with tempfile.TemporaryDirectory(prefix="nodius-eval-") as place:
        settings = common.settings(db=f"sqlite:{place}/eval.db", workspace=WORKSPACE)
        return run(settings, work, creates=True)


def _stored_graph(common: Printing, key: str) -> CaseGraph:
    """Returns a graph of the settings' database. Ends the program if there is none."""
    return run(common.settings(), lambda services: answer_cases.load_stored(services.source, key))


def _measured(common: Printing, cases: MeasurableCases, options: AnswerOptions) -> Output:
    """Returns the results of all cases; it fails if fewer are right than in the other run."""
    earlier = None if options.against is None else answer_report.read_rows(options.against)
    if options.against is not None and not earlier:
        usage_error(f"--against {options.against}: it holds no result")

    async def work(services: Services) -> list[AnswerRow]:
        async with open_model(services.settings, embedder=services.embedder) as model:
            return await _run(_setting(services, model), options, cases, quiet=common.as_json)

    rows = in_scratch(common, work)
    comparison = None if earlier is None else answer_report.compare(rows, earlier)
    if earlier is not None and comparison is None:
        usage_error(f"--against {options.against}: no case of it was measured now")
    is_worse = comparison is not None and comparison.difference < 0
    return Output(
        document=answer_report.report_document(rows, comparison, cases.left_out),
        text=partial(_show, rows, comparison),
        exit_code=EXIT_FAILED if is_worse else 0,
    )


def _setting(services: Services, model: Model) -> AnswerSetting:
    return AnswerSetting(
        source=services.source,
        approvals=services.approvals,
        embedder=services.embedder,
        agent=agent_of(services, model),
        provider=model.provider,
        pricing=model.pricing,
        meter=services.meter,
        box=services.box,
        call_log=services.call_log,
        person=services.local_person(),
        language=services.settings.language,
        call_place=services.call_place,
    )


async def _run(
    setting: AnswerSetting, options: AnswerOptions, cases: MeasurableCases, *, quiet: bool
) -> list[AnswerRow]:
    """Returns stored results first, then new ones, each of which is stored at once."""
    wanted = {setting.identity(case, way) for case in cases.cases for way in options.ways}
    stored: list[AnswerRow] = []
    if options.out is not None:
        stored = await asyncio.to_thread(answer_report.read_rows, options.out)
    rows = [row for row in stored if row.is_final and row.identity in wanted]
    done = frozenset(row.identity for row in rows)
    new = failures = 0
    with render.progress("asking", quiet=quiet) as update:
        results = run_cases(setting, cases.cases, cases.graphs, done=done, ways=options.ways)
        async for row in results:
            rows.append(row)
            if options.out is not None:
                await asyncio.to_thread(answer_report.append_row, options.out, row)
            new += 1
            update(new, len(wanted) - len(done))
            failures = 0 if row.is_final else failures + 1
            if failures == MAX_FAILURES:
                fail(
                    f"{failures} cases in a row failed, the last with {row.error}; run it again to go on"
                )
    return rows


def _show(rows: Sequence[AnswerRow], comparison: answer_report.Comparison | None) -> None:
    table = [_summary_row(summary) for summary in answer_report.summarize(rows)]
    render.table(COLUMNS, table, numbers=range(2, len(COLUMNS)))
    failed = [row for row in rows if row.error is not None]
    for row in failed[:MAX_REASONS]:
        render.note(f"failed: {row.case}, {row.way}: {row.error}")
    if comparison is not None:
        low, high = comparison.interval
        render.line()
        render.line(
            f"right, against the earlier run: {comparison.difference:+.3f} (95 %: {low:+.3f} to {high:+.3f})"
            f" over {comparison.cases} cases"
        )
        for word, names in (("better", comparison.better), ("worse", comparison.worse)):
            for name in names:
                render.note(f"{word}: {name}")


def _summary_row(summary: answer_report.AnswerSummary) -> list[str]:
    low, high = summary.right_interval
    means = summary.means
    return [
        f"{summary.kind}s",
        summary.way,
        f"{summary.cases:,}",
        *(f"{summary.shares[verdict]:.2f}" for verdict in answer_report.VERDICTS),
        f"{summary.invented_marked:,}",
        f"{low:.2f}–{high:.2f}",
        *(f"{means[name]:.1f}" for name in ("rounds", "tool_calls", "malformed")),
        *(f"{means[name]:,.0f}" for name in ("prompt", "completion")),
        "?" if summary.cost_usd is None else f"{summary.cost_usd:.4f}",
        f"{means['seconds']:.1f}",
    ]


def _json(document: Any, *notes: str) -> Output:
    """Returns output that is JSON also without --json, as a file for this or another tool."""
    return Output(document=document, text=partial(render.json, document), notes=notes)


def _made_cases(common: Printing, graph: Path, number: int) -> Output:
    """Returns cases made from a workflow file or from the graph of a key, as a file of cases."""
    if graph.is_file():
        name = graph.name
        read = answer_cases.read_graph(name, graph.parent, workspace=WORKSPACE, graph_key=WORKSPACE)
    else:
        name = f"{answer_cases.STORED}{graph}"
        read = _stored_graph(common, str(graph))
    cases = make_cases(read, number, file=name)
    count = len(cases.questions) + len(cases.changes)
    if not count:
        fail(f"{graph}: no case can be made from it")
    document = {"workflows": [cases.model_dump(mode="json", exclude_defaults=True)]}
    if count == number:
        return _json(document)
    return _json(document, f"{graph}: {count} cases, more cannot be made from it")


def _exported(file: Path, form: ExportFormat) -> Output:
    """Returns the questions of a file of cases in the format of another tool."""
    cases = answer_cases.read_cases(file)
    questions = exportable(cases)
    if not questions:
        fail(f"{file}: no question in it has facts")
    document = [EXPORTS[form](case, question) for case, question in questions]
    if left_out := len(cases) - len(questions):
        note = f"left out: {left_out} changes and questions that only the graph can judge"
        return _json(document, note)
    return _json(document)


def _fact_shares(common: Printing, file: Path, cases: MeasurableCases) -> Output:
    """Returns which share of the facts of right answers the contexts of the questions show."""

    async def work(services: Services) -> list[ContextFacts]:
        for graph in cases.graphs.values():
            await answer_cases.store_graph(services.source, services.embedder, graph)
        facts = context_facts(
            services.source,
            services.retriever,
            cases.cases,
            cases.graphs,
            role=services.local_person().role,
            options=services.context_options,
        )
        return [row async for row in facts]

    rows = in_scratch(common, work)
    if not rows:
        usage_error(f"{file}: no question in it has facts")
    shares = FactShares.of(rows)
    return Output(
        document={**shares.as_dict(), "left_out": cases.left_out}, text=partial(_show_facts, shares)
    )


def _show_facts(shares: FactShares) -> None:
    for row in shares.rows:
        if row.missing:
            render.note(f"{row.case} lacks {', '.join(row.missing)}")
    low, high = shares.interval
    cells = [
        f"{len(shares.rows)}",
        f"{shares.complete}",
        f"{shares.share:.3f}",
        f"{low:.3f}–{high:.3f}",
        f"{shares.tokens:,.0f}",
        f"{shares.whole_graphs}",
    ]
    render.table(FACT_COLUMNS, [cells], numbers=range(len(cells)))
