"""What `eval --answers` does: measures answers and changes, makes cases, and measures
facts in contexts.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import typer

from cli import render
from cli.common import EXIT_FAILED, fail, run, settings_of, usage_error
from graphrag.app.models import Model, open_model
from graphrag.app.wiring import Services, agent_of
from graphrag.evaluation import answer_cases, answer_report
from graphrag.evaluation.answer_cases import AskedChange, Case, CaseGraph
from graphrag.evaluation.answer_runs import WAYS, AnswerRow, AnswerSetting, Way, run_cases
from graphrag.evaluation.case_formats import EXPORTS, ExportFormat, exportable
from graphrag.evaluation.context_facts import ContextFacts, context_facts
from graphrag.evaluation.expected_graph import check_change
from graphrag.evaluation.made_cases import make_cases
from graphrag.evaluation.scoring import QueryFileError, interval

WORKSPACE = "eval"
MAX_FAILURES = 3
"""Failures of the model in a row that end the command; what is done is stored."""
MAX_REASONS = 10
HEADS: Final = (
    *(
        "cases",
        "way",
        "number",
        *answer_report.VERDICTS,
        "marked",
        "95 % of right",
        "rounds",
        "calls",
        "malformed",
    ),
    *("tokens in", "out", "USD", "seconds"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRun:
    """What is measured, where results are stored, and the run to compare with."""

    file: Path
    folder: Path | None
    out: Path | None
    against: Path | None
    agent_alone: bool

    @property
    def ways(self) -> Sequence[Way]:
        return WAYS[:1] if self.agent_alone else WAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cases:
    """The cases whose workflows could be read, those workflows, and why others were left out."""

    cases: list[Case]
    graphs: dict[str, CaseGraph]
    left_out: list[str]


def run_answers(measured: AnswerRun, *, as_json: bool) -> None:
    """Runs the cases and prints the results. Ends with 1 where fewer are right than in
    the other run.
    """
    earlier = None if measured.against is None else answer_report.read_rows(measured.against)
    if measured.against is not None and not earlier:
        usage_error(f"--against {measured.against}: it holds no result")
    read = _read(measured.file, measured.folder)
    if not as_json:
        _show_left_out(read.left_out)

    async def work(services: Services) -> list[AnswerRow]:
        async with open_model(services.settings, embedder=services.embedder) as model:
            return await _measured(_setting(services, model), measured, read, quiet=as_json)

    with tempfile.TemporaryDirectory(prefix="nodius-eval-") as place:
        rows = _in_scratch(place, work)
    comparison = None if earlier is None else answer_report.compare(rows, earlier)
    if earlier is not None and comparison is None:
        usage_error(f"--against {measured.against}: no case of it was measured now")
    if as_json:
        render.json(_document(rows, comparison, read.left_out))
    else:
        _show(rows, comparison)
    if comparison is not None and comparison.difference < 0:
        raise typer.Exit(EXIT_FAILED)


def _in_scratch(place: str, work: Any) -> Any:
    """Does the work with the services of an empty database."""
    return run(settings_of(f"sqlite:{place}/eval.db", WORKSPACE), work, creates=True)


def _read(file: Path, folder: Path | None) -> _Cases:
    """Returns the cases of a file with their graphs; ends the program where none is left."""
    cases = answer_cases.read_cases(file)
    graphs: dict[str, CaseGraph] = {}
    left_out: list[str] = []
    for number, name in enumerate(dict.fromkeys(case.file for case in cases)):
        try:
            graphs[name] = _graph(name, folder or file.parent, f"eval-{number}")
        except QueryFileError as exc:
            left_out.append(str(exc))
    kept = [case for case in cases if case.file in graphs]
    for case in kept:
        if isinstance(case.asked, AskedChange):
            try:
                check_change(graphs[case.file], case.asked)
            except ValueError as exc:
                raise QueryFileError(file=str(file), reason=f"{case.id}: {exc}") from exc
    if not kept:
        fail(left_out[0])
    return _Cases(cases=kept, graphs=graphs, left_out=left_out)


def _graph(name: str, folder: Path, key: str) -> CaseGraph:
    if not name.startswith(answer_cases.STORED):
        return answer_cases.read_graph(name, folder, workspace=WORKSPACE, graph_key=key)
    graph = _stored_graph(name.removeprefix(answer_cases.STORED))
    return answer_cases.copy_graph(graph, key, workspace=WORKSPACE)


def _stored_graph(key: str) -> CaseGraph:
    """Returns a graph of the settings' database; ends the program where there is none."""

    async def work(services: Services) -> CaseGraph:
        return await answer_cases.load_stored(services.source, key)

    return run(settings_of(None), work)


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


async def _measured(
    setting: AnswerSetting, measured: AnswerRun, read: _Cases, *, quiet: bool
) -> list[AnswerRow]:
    """Returns the results of all cases, those of the file to resume first; stores each
    new one there.
    """
    wanted = {setting.identity(case, way) for case in read.cases for way in measured.ways}
    stored = (
        []
        if measured.out is None
        else await asyncio.to_thread(answer_report.read_rows, measured.out)
    )
    rows = [row for row in stored if row.is_final and row.identity in wanted]
    done = frozenset(row.identity for row in rows)
    failures = 0
    with render.progress("asking", quiet=quiet) as update:
        count = render.counter(update, len(wanted) - len(done))
        results = run_cases(setting, read.cases, read.graphs, done=done, ways=measured.ways)
        async for row in results:
            rows.append(row)
            if measured.out is not None:
                await asyncio.to_thread(answer_report.append_row, measured.out, row)
            count()
            failures = 0 if row.is_final else failures + 1
            if failures == MAX_FAILURES:
                fail(
                    f"{failures} cases in a row failed, the last with {row.error}; run it again to go on"
                )
    return rows


def _document(
    rows: Sequence[AnswerRow], comparison: answer_report.Comparison | None, left_out: Sequence[str]
) -> dict[str, Any]:
    document: dict[str, Any] = {"left_out": list(left_out)}
    for summary in answer_report.summarize(rows):
        document.setdefault(f"{summary.kind}s", {})[summary.way] = summary.as_dict()
    if comparison is not None:
        document["against"] = comparison.as_dict()
    return document


def _show(rows: Sequence[AnswerRow], comparison: answer_report.Comparison | None) -> None:
    table = [
        [
            f"{one.kind}s",
            one.way,
            f"{one.cases:,}",
            *(f"{one.shares[verdict]:.2f}" for verdict in answer_report.VERDICTS),
            f"{one.invented_marked:,}",
            f"{one.right_interval[0]:.2f}–{one.right_interval[1]:.2f}",
            *(f"{one.means[name]:.1f}" for name in ("rounds", "tool_calls", "malformed")),
            *(f"{one.means[name]:,.0f}" for name in ("prompt", "completion")),
            "?" if one.cost_usd is None else f"{one.cost_usd:.4f}",
            f"{one.means['seconds']:.1f}",
        ]
        for one in answer_report.summarize(rows)
    ]
    render.table(HEADS, table, numbers=range(2, len(HEADS)))
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


def _show_left_out(reasons: Sequence[str]) -> None:
    for reason in reasons[:MAX_REASONS]:
        render.note(f"left out: {reason}")


def make_answer_cases(graph: Path, number: int) -> None:
    """Prints cases made from a workflow file, or from the graph of a key, as a file of cases."""
    if graph.is_file():
        name = graph.name
        read = answer_cases.read_graph(name, graph.parent, workspace=WORKSPACE, graph_key=WORKSPACE)
    else:
        name = f"{answer_cases.STORED}{graph}"
        read = _stored_graph(str(graph))
    made = make_cases(read, number, file=name)
    found = len(made.questions) + len(made.changes)
    if not found:
        fail(f"{graph}: no case can be made from it")
    render.json({"workflows": [made.model_dump(mode="json", exclude_defaults=True)]})
    if found < number:
        render.note(f"{graph}: {found} cases, more cannot be made from it")


def export_questions(file: Path, form: ExportFormat) -> None:
    """Prints the questions of a file of cases in the format of another tool; says how many
    it leaves out.
    """
    cases = answer_cases.read_cases(file)
    found = exportable(cases)
    if not found:
        fail(f"{file}: no question in it has facts")
    render.json([EXPORTS[form](case, question) for case, question in found])
    if left_out := len(cases) - len(found):
        render.note(f"left out: {left_out} changes and questions that only the graph can judge")


def show_fact_shares(file: Path, folder: Path | None, *, as_json: bool) -> None:
    """Prints which share of the facts of right answers the contexts of the questions show."""
    read = _read(file, folder)

    async def work(services: Services) -> list[ContextFacts]:
        for graph in read.graphs.values():
            await answer_cases.store_graph(services.source, services.embedder, graph)
        facts = context_facts(
            services.source,
            services.retriever,
            read.cases,
            read.graphs,
            role=services.local_person().role,
            options=services.context_options,
        )
        return [row async for row in facts]

    with tempfile.TemporaryDirectory(prefix="nodius-eval-") as place:
        rows: list[ContextFacts] = _in_scratch(place, work)
    if not rows:
        usage_error(f"{file}: no question in it has facts")
    shares = [row.share for row in rows]
    tokens = [row.tokens for row in rows]
    low, high = interval(shares)
    summary: dict[str, Any] = {
        "questions": len(rows),
        "all_facts": sum(not row.missing for row in rows),
        "share_of_facts": round(float(np.mean(shares)), 4),
        "interval": [round(low, 4), round(high, 4)],
        "tokens": round(float(np.mean(tokens)), 1),
        "whole_graphs": sum(row.whole for row in rows),
    }
    if as_json:
        missing = [asdict(row) for row in rows if row.missing]
        render.json({**summary, "missing": missing, "left_out": read.left_out})
        return
    _show_left_out(read.left_out)
    for row in rows:
        if row.missing:
            render.note(f"{row.case} lacks {', '.join(row.missing)}")
    render.table(
        ["questions", "all facts", "share of facts", "95 % interval", "tokens", "whole graphs"],
        [
            [
                f"{len(rows)}",
                f"{summary['all_facts']}",
                f"{summary['share_of_facts']:.3f}",
                f"{low:.3f}–{high:.3f}",
                f"{summary['tokens']:,.0f}",
                f"{summary['whole_graphs']}",
            ]
        ],
        numbers=range(6),
    )
