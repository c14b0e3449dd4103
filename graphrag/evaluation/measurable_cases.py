"""Reads a file of cases together with the workflows that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphrag.evaluation.answer_cases import (
    STORED,
    AskedChange,
    Case,
    CaseGraph,
    copy_graph,
    read_cases,
    read_graph,
)
from graphrag.evaluation.expected_graph import check_change
from graphrag.evaluation.scoring import QueryFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurableCases:
    """Cases whose workflows could be read, these workflows, and why others were left out."""

    cases: Sequence[Case]
    graphs: Mapping[str, CaseGraph]
    left_out: Sequence[str]


def read_measurable(
    path: Path, folder: Path | None, *, workspace: str, stored: Callable[[str], CaseGraph]
) -> MeasurableCases:
    """Returns the cases of a file with their graphs. `stored` returns a graph of the database.

    Raises: QueryFileError for a malformed file, and for a change whose result holds already.
    """
    cases = read_cases(path)
    graphs: dict[str, CaseGraph] = {}
    left_out: list[str] = []
    for number, name in enumerate(dict.fromkeys(case.file for case in cases)):
        key = f"eval-{number}"
        try:
            if name.startswith(STORED):
                graph = stored(name.removeprefix(STORED))
                graphs[name] = copy_graph(graph, key, workspace=workspace)
            else:
                place = folder or path.parent
                graphs[name] = read_graph(name, place, workspace=workspace, graph_key=key)
        except QueryFileError as exc:
            left_out.append(str(exc))
    kept = [case for case in cases if case.file in graphs]
    for case in kept:
        if isinstance(case.asked, AskedChange):
            try:
                check_change(graphs[case.file], case.asked)
            except ValueError as exc:
                raise QueryFileError(file=str(path), reason=f"{case.id}: {exc}") from exc
    return MeasurableCases(cases=kept, graphs=graphs, left_out=left_out)
