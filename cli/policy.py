"""The command `policy`: for which changes people must be asked, and setting that."""

from __future__ import annotations

from functools import partial
from typing import Annotated, cast

from cli import render
from cli.common import usage_error
from cli.options import Common, argument, command, option
from graphrag.app.wiring import Services
from graphrag.approvals.policies import PolicyView
from graphrag.approvals.validation import CLASSES, ActionClass
from graphrag.i18n import Language, text

NONE = "none"


@command()
async def policy(
    common: Common,
    services: Services,
    graph: Annotated[str | None, argument("[GRAPH]", "Also what this graph demands.")] = None,
    wanted: Annotated[
        str | None,
        option(
            "--set",
            "CLASSES",
            f"Demand a person for these, or {NONE}: {', '.join(sorted(CLASSES))}.",
        ),
    ] = None,
    type_name: Annotated[
        str | None, option("--type", "TYPE", "Set it for this node type of the graph.")
    ] = None,
) -> None:
    """Show for which changes people must be asked; with --set, say so for the
    workspace or the GRAPH.
    """
    if type_name is not None and (graph is None or wanted is None):
        usage_error("--type needs a GRAPH and --set")
    classes = None if wanted is None else class_names(wanted)
    person = services.local_person()
    approvals = services.approvals
    if graph is not None:
        await services.source.get_graph(graph)
    if classes is None:
        found = await approvals.policy(person, graph)
    else:
        found = await approvals.set_policy(classes, person, graph_key=graph, type_name=type_name)
    common.say(found.to_document(), partial(_show, found, services.settings.language))


def _show(found: PolicyView, language: Language) -> None:
    levels = {"application": found.application, "workspace": found.workspace, "graph": found.graph}
    rows = [
        [text(f"level_{name}", language), ", ".join(asked) or NONE]
        for name, asked in levels.items()
        if asked is not None
    ]
    for name, asked in found.node_types.items():
        rows.append([text("level_nodeType", language, name=name), ", ".join(asked)])
    render.table(["level", "a person for"], rows)


def class_names(wanted: str) -> list[ActionClass]:
    """Return the classes of a list with commas; ends the command for one that is none."""
    names = (
        []
        if wanted.strip() == NONE
        else [name.strip() for name in wanted.split(",") if name.strip()]
    )
    unknown = [name for name in names if name not in CLASSES]
    if unknown:
        usage_error(f"no class {unknown[0]!r}; use {NONE} or some of {', '.join(sorted(CLASSES))}")
    return cast(list[ActionClass], names)
