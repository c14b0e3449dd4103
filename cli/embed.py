"""The `embed-nodes` command: brings a database's embeddings up to date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from cli import render
from cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    DbOption,
    JsonOption,
    LanguageOption,
    WorkspaceOption,
    fail,
    graph_or_fail,
    run,
    settings_of,
)
from graphrag.embed_nodes import EmbedReport, embed_nodes
from graphrag.wiring import Services


def embed(
    graph: Annotated[
        list[str] | None,
        typer.Option("--graph", "-g", metavar="GRAPH", help="Just this graph (may be repeated)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Renew every vector, changed or not.")] = False,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, max=2000, help="Nodes in one request.")
    ] = 100,
    delay_ms: Annotated[
        int, typer.Option("--delay-ms", "--delay", metavar="MS", min=0, help="Pause between requests.")
    ] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be done; change nothing.")
    ] = False,
    as_json: JsonOption = False,
    db: DbOption = None,
    arangodb: Annotated[
        str | None,
        typer.Option(
            "--arangodb", metavar="URL", help="ArangoDB server, as http://HOST:8529, in place of --db."
        ),
    ] = None,
    arangodb_name: Annotated[
        str | None, typer.Option("--arangodb-name", metavar="NAME", help="Database there (default: nodius).")
    ] = None,
    arangodb_user: Annotated[
        str | None, typer.Option("--arangodb-user", metavar="USER", help="Who signs in (default: root).")
    ] = None,
    arangodb_pass: Annotated[
        str | None,
        typer.Option(
            "--arangodb-pass",
            metavar="PASSWORD",
            help="Their password (lists of processes show it; --db with password_file= hides it).",
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    lang: LanguageOption = None,
) -> None:
    """Embed the nodes whose vector is missing, outdated or of another model.

    Can be stopped and started again: what is stored is not done twice.
    """
    server = _Server(arangodb, arangodb_name, arangodb_user, arangodb_pass)
    settings = settings_of(server.address(db), workspace, lang)

    ask = {"force": force, "batch": batch, "delay_ms": delay_ms, "dry_run": dry_run}
    report = run(settings, lambda services: _embedded(services, graph or [], quiet=as_json, **ask))
    if as_json:
        render.json(report.as_dict())
    else:
        show_report(report, dry_run=dry_run)
    if report.failed:
        raise typer.Exit(EXIT_FAILED)


async def _embedded(services: Services, graphs: list[str], *, quiet: bool, **ask: Any) -> EmbedReport:
    if services.embedder is None:
        fail("embeddings are turned off (setting NODIUS_EMBEDDINGS=none): nothing to do", code=EXIT_USAGE)
    for key in graphs:
        await graph_or_fail(services.source, key)
    with render.progress("embedding nodes", quiet=quiet) as update:
        return await embed_nodes(
            services.source, services.embedder, graph_keys=graphs or None, progress=update, **ask
        )


@dataclass(frozen=True, slots=True)
class _Server:
    """An ArangoDB server as Nodius's own script took it: in four parameters."""

    server: str | None
    name: str | None
    user: str | None
    password: str | None

    def address(self, db: str | None) -> str | None:
        """Return the database address they make, `db` where none is given; both at once end the program."""
        if self.server is None:
            if any(given is not None for given in (self.name, self.user, self.password)):
                reason = "--arangodb-name, --arangodb-user and --arangodb-pass need --arangodb URL"
                fail(reason, code=EXIT_USAGE)
            return db
        if db is not None:
            fail("--db and --arangodb both name a database: give one of them", code=EXIT_USAGE)
        parts = urlsplit(self.server if "://" in self.server else f"http://{self.server}")
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query:
            fail(f"--arangodb {self.server!r}: it must read http://HOST:8529", code=EXIT_USAGE)
        if "@" in parts.netloc:
            fail("--arangodb: give the sign-in as --arangodb-user and --arangodb-pass", code=EXIT_USAGE)
        login = f"{quote(self.user or 'root', safe='')}:{quote(self.password or '', safe='')}"
        return f"arango+{parts.scheme}://{login}@{parts.netloc}/{quote(self.name or 'nodius', safe='')}"


def show_report(report: EmbedReport, *, dry_run: bool = False) -> None:
    """Print what embedding did, and the first failures with their reason."""
    verb = "to embed" if dry_run else "embedded"
    render.line(
        f"{report.embedded} {verb}, {report.skipped} up to date, {report.empty} without text, "
        f"{report.failed} failed ({report.seconds:.1f} s)"
    )
    for failure in report.failures[:10]:
        render.line(f"  failed: {failure}", "red")
