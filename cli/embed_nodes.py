"""The `embed-nodes` command: embeds nodes whose vectors are missing or outdated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated
from urllib.parse import quote, urlsplit

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, run, usage_error
from cli.options import Common, OptionGroup, flag, option
from cli.output import Output
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.embedding.packaged import PACKAGED
from graphrag.embedding.refresh import EmbedReport, embed_nodes
from graphrag.embedding.workspace_embedder import WorkspaceEmbedder
from graphrag.llm.base import UsageReport
from graphrag.llm.registry import embedding_pricing

MAX_FAILURES, MAX_WORKSPACES = 10, 5  # that are printed one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangoServer(OptionGroup):
    """An ArangoDB server, by the four options of the script that comes with Nodius."""

    arangodb: Annotated[
        str | None,
        option("--arangodb", "URL", "ArangoDB server, such as http://HOST:8529, in place of --db."),
    ] = None
    arangodb_name: Annotated[
        str | None, option("--arangodb-name", "NAME", "Database there (default: nodius).")
    ] = None
    arangodb_user: Annotated[
        str | None, option("--arangodb-user", "USER", "User to sign in as (default: root).")
    ] = None
    arangodb_pass: Annotated[
        str | None,
        option(
            "--arangodb-pass",
            "PASSWORD",
            "Its password (lists of processes show it; --db with password_file= hides it).",
        ),
    ] = None

    def address(self, db: str | None) -> str | None:
        """Returns the address of the server, or `db` without one. Ends the program if both are
        given.
        """
        server = self.arangodb
        name = self.arangodb_name
        if server is None:
            if any(given is not None for given in (name, self.arangodb_user, self.arangodb_pass)):
                reason = "--arangodb-name, --arangodb-user and --arangodb-pass need --arangodb URL"
                usage_error(reason)
            return db
        if db is not None:
            usage_error("--db and --arangodb both name a database: give one of them")
        parts = urlsplit(server if "://" in server else f"http://{server}")
        if (
            parts.scheme not in ("http", "https")
            or not parts.netloc
            or parts.path.strip("/")
            or parts.query
        ):
            usage_error(f"--arangodb {server!r}: it must read http://HOST:8529")
        if "@" in parts.netloc:
            usage_error("--arangodb: give the sign-in as --arangodb-user and --arangodb-pass")
        login = ":".join(
            quote(part or "", safe="")
            for part in (self.arangodb_user or "root", self.arangodb_pass)
        )
        return f"arango+{parts.scheme}://{login}@{parts.netloc}/{quote(name or 'nodius', safe='')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingOptions(OptionGroup):
    """Which nodes to embed, and how."""

    graph: Annotated[
        list[str] | None, option("--graph -g", "GRAPH", "Only this graph (may be repeated).")
    ] = None
    force: Annotated[bool, flag("--force", "Renew every vector, also those of other models.")] = (
        False
    )
    adopt: Annotated[
        str | None,
        option(
            "--adopt",
            "MODEL",
            "Treat vectors that name no model, as the editor writes them, as vectors of this model.",
        ),
    ] = None
    beside: Annotated[
        bool,
        flag(
            "--beside",
            "Embed only nodes without a vector; vectors that name no model are kept, not searched.",
        ),
    ] = False
    all_workspaces: Annotated[
        bool, flag("--all-workspaces", "Embed in every workspace that has graphs.")
    ] = False
    batch: Annotated[int, option("--batch", "N", "Nodes per request.", min=1, max=2000)] = 100
    delay_ms: Annotated[
        int, option("--delay-ms --delay", "MS", "Pause between requests.", min=0)
    ] = 0
    dry_run: Annotated[
        bool, flag("--dry-run", "Only count the nodes to embed; change nothing.")
    ] = False

    async def here(self, services: Services, quiet: bool) -> EmbedReport:
        """Embeds in the chosen workspace. If it has no graphs, prints workspaces that have some."""
        embedder = services.embedder
        if embedder is None:
            usage_error("embeddings are turned off (setting NODIUS_EMBEDDINGS=none): nothing to do")
        await embedder.resolve()
        if self.adopt not in (None, embedder.model):
            reason = (
                f"vectors are searched with {embedder.model}: "
                f"set NODIUS_EMBEDDINGS_MODEL={self.adopt} first"
            )
            usage_error(f"--adopt {self.adopt}: {reason}")
        for key in self.graph or ():
            await services.source.get_graph(key)
        embedding = partial(
            embed_nodes,
            services.source,
            embedder,
            graph_keys=self.graph,
            adopt=self.adopt is not None,
            beside=self.beside,
            force=self.force,
            batch=self.batch,
            delay_ms=self.delay_ms,
            dry_run=self.dry_run,
        )
        if self.force and not self.dry_run and not quiet:
            planned = await embedding(dry_run=True)
            cost = _cost(planned, services.settings, embedder.chosen.model)
            render.note(f"{planned.embedded:,} nodes are embedded: {cost}")
        with render.progress("embedding nodes", quiet=quiet) as update:
            report = await embedding(progress=update)
        await self._print_hints(services, report, embedder)
        return report

    async def _print_hints(
        self, services: Services, report: EmbedReport, embedder: WorkspaceEmbedder
    ) -> None:
        """Prints which nodes were skipped, and the option that embeds them."""
        model = embedder.model
        chosen = embedder.chosen.model
        if model != chosen and embedder.is_usable:
            render.note(
                f"This workspace keeps using vectors of {model}; --force renews all of them with {chosen}"
            )
        if not report.graphs and (others := await services.database.workspaces()):
            named = ", ".join(others[:MAX_WORKSPACES])
            named += " and others" if len(others) > MAX_WORKSPACES else ""
            render.note(
                f"Workspace {services.settings.workspace!r} has no graphs, but {named} has: "
                "--workspace NAME or --all-workspaces"
            )
        if report.other_model:
            render.note(
                f"{report.other_model:,} nodes were skipped: the vectors of their graphs are of "
                f"{', '.join(sorted(report.models))}, not of {chosen}; --force renews them "
                "(add --dry-run to see the cost)"
            )
        if report.unmarked:
            render.note(
                f"{report.unmarked:,} nodes were skipped: their vectors name no model. If they are of the "
                f"configured model, --adopt {model} uses them; --force renews them"
            )

    async def everywhere(self, services: Services, quiet: bool) -> EmbedReport:
        """Embeds in each workspace of the database, one after another."""
        total = EmbedReport()
        for workspace in await services.database.workspaces():
            report = await self.here(services.of(workspace), quiet)
            if not quiet:
                render.line(f"{workspace}:", "bold")
                show_report(report, dry_run=self.dry_run)
            total.add(report)
        return total


@command()
def embed(common: Common, embedding: EmbeddingOptions, server: ArangoServer) -> Output:
    """Embed the nodes whose vector is missing or older than their text.

    Can be stopped and started again: stored vectors are not computed twice. Vectors of another
    model, and those that name no model, are kept without --force or --adopt.
    """
    address = server.address(common.db)
    if embedding.all_workspaces and (common.workspace or embedding.graph):
        usage_error("--all-workspaces names no workspace and no graph")
    work = embedding.everywhere if embedding.all_workspaces else embedding.here
    report = run(replace(common, db=address).settings(), partial(work, quiet=common.as_json))
    return Output(
        document=report.as_dict(),
        text=partial(show_report, report, dry_run=embedding.dry_run),
        exit_code=EXIT_FAILED if report.failed else 0,
    )


def _cost(report: EmbedReport, settings: Settings, model: str) -> str:
    """Returns the approximate tokens of a dry run, and their cost."""
    if model in PACKAGED:
        return f"about {report.tokens:,} tokens"
    cost = embedding_pricing(settings, model).cost_usd(UsageReport(prompt=report.tokens))
    price = ", unpriced" if cost is None else f", about {cost:.4f} US dollars"
    return f"about {report.tokens:,} tokens{price}"


def show_report(report: EmbedReport, *, dry_run: bool = False) -> None:
    """Prints the counts of an embedding run, and its first failures with their reasons."""
    verb = "to embed" if dry_run else "embedded"
    render.line(
        f"{report.embedded} {verb}, {report.skipped} up to date, {report.empty} without text, "
        f"{report.failed} failed ({report.seconds:.1f} s)"
    )
    if dry_run and report.embedded:
        render.line(f"about {report.tokens:,} tokens")
    for failure in report.failures[:MAX_FAILURES]:
        render.line(f"  failed: {failure}", "red")
