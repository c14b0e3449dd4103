"""The command `check`: finds problems of a graph without a model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import usage_error
from cli.options import GraphArgument, option
from cli.output import Output
from graphrag.app.wiring import Services
from graphrag.i18n import Language
from tools.checks.checking import RULES
from tools.read_tools.check import document, findings


@command()
async def check(
    services: Services,
    language: Language,
    graph: GraphArgument,
    rule: Annotated[
        list[str] | None, option("--rule", "NAME", "Only this rule; may be repeated.")
    ] = None,
) -> Output:
    """Find problems of a graph: steps never reached, open error outputs, broken references, …

    A graph disables or weights rules in its `metadata.checks`: see docs/checks.md.
    """
    unknown = sorted(set(rule or ()) - set(RULES))
    if unknown:
        usage_error(f"no rule {unknown[0]!r}; there are {', '.join(RULES)}")
    problems = await findings(services.source, graph, rule or ())
    rows = [[one.severity, one.rule, one.sentence(language)] for one in problems]
    columns = ["severity", "rule", "finding"]
    return Output(
        document={"graph": graph, "findings": [document(one, language) for one in problems]},
        text=partial(render.table, columns, rows, folded=2)
        if rows
        else partial(render.note, f"The rules find nothing wrong with {graph!r}."),
    )
