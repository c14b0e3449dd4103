"""The command `policy`: shows and sets the classes of change that a person must approve."""

from __future__ import annotations

from functools import partial
from typing import Annotated, cast

from cli import render
from cli.command import command
from cli.common import usage_error
from cli.options import argument, option
from cli.output import Output
from graphrag.app.wiring import Services
from graphrag.approvals.policies import PolicyView
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.i18n import Language, text
from graphrag.roles import Person

NONE = "none"


@command()
async def policy(
    services: Services,
    person: Person,
    language: Language,
    graph: Annotated[str | None, argument("[GRAPH]", "Also the policy of this graph.")] = None,
    wanted: Annotated[
        str | None,
        option(
            "--set",
            "CLASSES",
            f"Require a person for these, or {NONE}: {', '.join(sorted(CLASSES))}.",
        ),
    ] = None,
    type_name: Annotated[
        str | None, option("--type", "TYPE", "Set it for this node type of the graph.")
    ] = None,
) -> Output:
    """Show which changes a person must approve; with --set, change it for the workspace or the
    GRAPH.
    """
    if type_name is not None and (graph is None or wanted is None):
        usage_error("--type needs a GRAPH and --set")
    classes = None if wanted is None else _classes(wanted)
    approvals = services.approvals
    if graph is not None:
        await services.source.get_graph(graph)
    if classes is None:
        view = await approvals.policy(person, graph)
    else:
        view = await approvals.set_policy(classes, person, graph_key=graph, type_name=type_name)
    return Output(document=view.to_document(), text=partial(_show, view, language))


def _show(view: PolicyView, language: Language) -> None:
    levels = {"application": view.application, "workspace": view.workspace, "graph": view.graph}
    rows = [
        [text(f"level_{name}", language), ", ".join(classes) or NONE]
        for name, classes in levels.items()
        if classes is not None
    ]
    for name, classes in view.node_types.items():
        rows.append([text("level_nodeType", language, name=name), ", ".join(classes)])
    render.table(["level", "a person approves"], rows)


def _classes(wanted: str) -> list[ActionClass]:
    """Returns the classes in a list separated by commas. Ends the program for an unknown one."""
    if wanted.strip() == NONE:
        return []
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in CLASSES]
    if unknown:
        usage_error(f"no class {unknown[0]!r}; use {NONE} or some of {', '.join(sorted(CLASSES))}")
    return cast(list[ActionClass], names)
