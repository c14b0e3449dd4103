"""The command `check`: what is wrong with a graph, found without a model."""

from __future__ import annotations

from typing import Annotated

from cli import render
from cli.common import usage_error
from cli.options import Common, GraphArgument, command, option
from graphrag.app.wiring import Services
from tools.checks.checking import RULES
from tools.read_tools.check import document, findings


@command()
async def check(
    common: Common,
    services: Services,
    graph: GraphArgument,
    rule: Annotated[
        list[str] | None, option("--rule", "NAME", "Only this rule; may be repeated.")
    ] = None,
) -> None:
    """Find what is wrong with a graph: steps never reached, open error outputs,
    broken references, …

    A graph switches rules off or weighs them in its `metadata.checks`: see docs/checks.md.
    """
    unknown = sorted(set(rule or ()) - set(RULES))
    if unknown:
        usage_error(f"no rule {unknown[0]!r}; there are {', '.join(RULES)}")
    found = await findings(services.source, graph, rule or ())
    language = services.settings.language
    if common.as_json:
        render.json({"graph": graph, "findings": [document(one, language) for one in found]})
    elif found:
        rows = [[one.severity, one.rule, one.sentence(language)] for one in found]
        render.table(["severity", "rule", "finding"], rows, folded=2)
    else:
        render.note(f"The rules find nothing wrong with {graph!r}.")
