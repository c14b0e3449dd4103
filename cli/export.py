"""The command `export`: writes a graph as a file of its tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from cli import render
from cli.command import command
from cli.inputs import write_file
from cli.options import Common, GraphArgument, option
from datasources.types import Family
from graphrag.app.wiring import Services
from graphrag.i18n import Language
from graphrag.importers.exchange import export_file


@command()
async def export(
    common: Common,
    services: Services,
    language: Language,
    graph: GraphArgument,
    form: Annotated[Family, option("--format -f", "F", "nodius, n8n or node-red.")] = "nodius",
    output: Annotated[
        Path | None, option("--output -o", "FILE", "Write to this file, not to standard output.")
    ] = None,
) -> None:
    """Export a graph as Nodius JSON, as an n8n workflow or as a Node-RED flow.

    For n8n and Node-RED this is the imported file with the changes made since; parts that the
    format cannot hold are listed. With `--json` it is printed on one line, else indented.
    """
    exported = await export_file(services.approvals, graph, form)
    for line in exported.report.lines(language):
        render.note(line)
    text = orjson.dumps(exported.document) + b"\n" if common.as_json else exported.text()
    if output is None:
        typer.echo(text.decode(), nl=False)
        return
    write_file(output, text)
    render.note(f"wrote {output} ({len(text):,} bytes)")
