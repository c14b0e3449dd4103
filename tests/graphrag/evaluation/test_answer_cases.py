"""The set of cases in `tests/data/answers`: every fact is in its workflow, every change fits it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from graphrag.evaluation.answer_cases import (
    SAMPLE,
    AskedChange,
    Case,
    CaseGraph,
    read_cases,
    read_graph,
)
from graphrag.evaluation.answer_scoring import has_fact, normalize
from graphrag.evaluation.expected_graph import check_change
from graphrag.evaluation.made_cases import make_cases
from tools.toon import compact_json

ROOT = Path(__file__).parents[3]
CASES = read_cases(ROOT / "tests" / "data" / "answers" / "cases.toml")
SHARED = ROOT.parent / "shared" / "data" / "workflows"  # published exports, beside this repository


@cache
def graph_of(file: str) -> CaseGraph:
    return read_graph(file, SHARED, workspace="w", graph_key="g")


def everything_in(graph: CaseGraph) -> str:
    """Returns all texts of a graph, without the quotes that JSON puts around them."""
    parts = [*graph.nodes.values(), *graph.edges.values(), *graph.configs]
    return normalize(" ".join(compact_json(part.to_document()) for part in parts))


def problems_of(cases: list[Case]) -> list[str]:
    found: list[str] = []
    for case in cases:
        graph = graph_of(case.file)
        if isinstance(case.asked, AskedChange):
            try:
                check_change(graph, case.asked)
            except ValueError as exc:
                found.append(f"{case.id}: {exc}")
            continue
        text = everything_in(graph)
        found += [
            f"{case.id}: {fact}"
            for fact in case.asked.shown_facts
            if not has_fact(text, fact, graph)
        ]
        ends = case.asked.connected or ()
        found += [f"{case.id}: {name}" for name in ends if len(graph.keys(name)) != 1]
    return found


def test_the_set_has_60_questions_and_30_changes_about_12_workflows() -> None:
    kinds = [case.kind for case in CASES]
    assert (kinds.count("question"), kinds.count("change")) == (60, 30)
    assert len({case.file for case in CASES}) == 12


def test_every_fact_about_a_packaged_workflow_is_in_it() -> None:
    assert problems_of([case for case in CASES if case.file.startswith(SAMPLE)]) == []


def test_every_fact_about_a_published_workflow_is_in_it() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the published workflows are not here: {SHARED}")
    assert problems_of([case for case in CASES if not case.file.startswith(SAMPLE)]) == []


def test_cases_made_from_a_graph_fit_it() -> None:
    for file in dict.fromkeys(case.file for case in CASES if case.file.startswith(SAMPLE)):
        graph = graph_of(file)
        made = make_cases(graph, 40, file=file)
        assert len(made.questions) + len(made.changes) == 40
        for change in made.changes:
            check_change(graph, change)
        text = everything_in(graph)
        facts = [fact for asked in made.questions for fact in asked.shown_facts]
        assert [fact for fact in facts if not has_fact(text, fact, graph)] == []
        connected = [graph.has_edge(asked.connected) for asked in made.questions if asked.connected]
        assert abs(2 * sum(connected) - len(connected)) <= 1
