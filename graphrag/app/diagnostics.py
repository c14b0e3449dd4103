"""Checks an installation: reports what works, what is missing, and how to fix it."""

from __future__ import annotations

import asyncio
import platform
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

from datasources.base import Database, Finding
from datasources.errors import SourceError
from datasources.types import ROOT_WORKSPACE, GraphStats
from graphrag.agents.agent_store import Agents
from graphrag.agents.agent_view import runs
from graphrag.app.agent_services import load_all_builders, load_secrets, rules_of
from graphrag.app.connection_diagnostics import examine_connections
from graphrag.app.databases import database_file, open_database
from graphrag.app.model_trial import QUESTION
from graphrag.app.models import rules_provider
from graphrag.app.oidc_discovery import examine_sign_in
from graphrag.app.voice_diagnostics import examine_voice
from graphrag.automations.automation_store import Automations
from graphrag.automations.last_seen import last_tick
from graphrag.automations.lateness import LATE_MS
from graphrag.config import Settings, SettingsError
from graphrag.embedding import local, make_embedder
from graphrag.embedding.embedder import EmbeddingError
from graphrag.embedding.language import is_english
from graphrag.embedding.packaged import ENGLISH_MODELS, PACKAGED
from graphrag.embedding.refresh import is_of_another_model
from graphrag.embedding.workspace_embedder import WorkspaceEmbedder
from graphrag.leases import now_ms
from graphrag.llm.base import LearnsWindow, LLMProvider, ModelOptions, UserMessage
from graphrag.llm.errors import ModelError
from graphrag.llm.model_text import complete
from graphrag.llm.registry import DETECTED, ENTRIES, choose, make_provider
from graphrag.llm.tokens import tokenizer_name

PATIENCE_S = 5.0
ASK_PATIENCE_S = 120.0
# Maximum number of graphs whose vectors are counted by model.
MAX_GRAPHS = 500

_MODEL = "models"
_AGENTS = "agents"
_FILL = "nodius demo, or nodius import FILE"


async def examine(
    settings: Settings, *, patience_s: float = PATIENCE_S, ask: bool = False
) -> list[Finding]:
    """Returns the findings of all parts. Problems are findings, not errors.

    Services have `patience_s` seconds to answer. With `ask` the model is asked a short question,
    and the time to embed a text is reported.
    """
    return [
        Finding("python", "ok", f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}"),
        *await _database(settings, patience_s, ask=ask),
        await _embeddings(settings, patience_s, ask=ask),
        _tokenizer(),
        await _model(settings, patience_s, ask=ask),
        *await examine_sign_in(settings, patience_s),
    ]


async def _database(settings: Settings, patience_s: float, *, ask: bool) -> list[Finding]:
    try:
        file = database_file(settings.db)
        if file is not None and not await asyncio.to_thread(file.exists):
            detail = f"{settings.db} does not exist yet"
            return [Finding("database", "warning", detail, _FILL)]
        async with open_database(settings.db, settings.workspace) as database:
            findings = await database.check()
            source = database.source(settings.workspace)
            graphs = await source.list_graphs()
            stats = [await source.get_stats(graph.key) for graph in graphs[:MAX_GRAPHS]]
            vectors = await _vectors(settings, database, stats)
            ticks = await _automations(settings, database)
            others = await _agents(settings, database)
            others += await examine_voice(settings, database, ask=ask)
            others += await examine_connections(settings, database, patience_s)
    except SourceError as exc:
        fix = "choose another with --db or NODIUS_DB; `nodius db check` tells more of a server"
        return [Finding("database", "error", str(exc), fix)]
    if graphs:
        many = "1 graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
        detail = f"{settings.workspace!r} holds {many}"
        return [*findings, Finding("workspace", "ok", detail), *vectors, *ticks, *others]
    detail = f"{settings.workspace!r} holds no graph yet"
    return [*findings, Finding("workspace", "warning", detail, _FILL), *others]


async def _agents(settings: Settings, database: Database) -> list[Finding]:
    """Reports agents that should run and do not, problems with secrets, and the reachable
    addresses.
    """
    records = database.records(settings.workspace)
    agents = await Agents(records, settings.workspace).list()
    allowed = ", ".join(("public addresses", *settings.agent_http_allow))
    if settings.agent_http_only:
        allowed = ", ".join(settings.agent_http_only)
    try:
        load_secrets(settings)
        load_all_builders(settings)
        rules_of(settings)
    except SettingsError as exc:
        return [Finding(_AGENTS, "error", str(exc), "correct the setting")]
    if not agents:
        return []
    wanted = [agent for agent in agents if agent.desired == "running"]
    down = [agent.agent_id for agent in wanted if not runs(agent)]
    detail = f"{len(agents)} agents, {len(wanted)} should run; they reach {allowed}"
    if down:
        detail += f"; these do not run: {', '.join(down[:5])}"
        fix = "`nodius agents health` says why"
        return [Finding(_AGENTS, "error", detail, fix)]
    return [Finding(_AGENTS, "ok", detail)]


async def _automations(settings: Settings, database: Database) -> list[Finding]:
    """Reports whether a server runs automations, how many are late, and the version of the time
    zones.
    """
    records = database.records(settings.workspace)
    now = now_ms()
    automations = await Automations(records, workspace=settings.workspace).list()
    if not automations:
        return []
    late = sum(1 for a in automations if a.enabled and (a.next_time or now) < now - LATE_MS)
    zones = f"time zones of {version('tzdata')}, beside the system's"
    detail = f"{len(automations)} automations, {late} late; {zones}"
    ticked = await last_tick(database.records(ROOT_WORKSPACE))
    if ticked is None or now - ticked > LATE_MS:
        fix = "run `nodius serve`, or `nodius automations run-due` from a timer"
        ago = "" if ticked is None else f" since {(now - ticked) // 1000} s"
        return [Finding("automations", "warning", f"{detail}; no server runs them{ago}", fix)]
    if late:
        fix = "`nodius automations` says which; a server with more places: `automations_at_once`"
        return [Finding("automations", "warning", detail, fix)]
    return [Finding("automations", "ok", detail)]


async def _vectors(
    settings: Settings, database: Database, stats: Sequence[GraphStats]
) -> list[Finding]:
    """Reports the models of the stored vectors, and whether searches use the same model."""
    nodes: Counter[str] = Counter()
    for graph in stats:
        nodes.update(graph.vectors)
    try:
        chosen = make_embedder(settings)
    except EmbeddingError:  # reported by the next finding
        return []
    if chosen is None or not nodes:
        return []
    await chosen.aclose()
    workspace = settings.workspace
    embedder = WorkspaceEmbedder(chosen, database.source(workspace), database.records(workspace))
    await embedder.resolve()
    named = ((model or "no named model", count) for model, count in nodes.most_common())
    detail = ", ".join(f"{count:,} nodes of {model}" for model, count in named)
    of_other_model = sum(is_of_another_model(graph, embedder.model) for graph in stats)
    if not embedder.is_usable:
        detail += f"; the settings choose {chosen.model}, so words alone are searched"
    elif embedder.model != chosen.model:
        detail += (
            f"; the settings choose {chosen.model}, "
            f"but searches and new vectors stay of {embedder.model}"
        )
    elif of_other_model:
        detail += (
            f"; in {of_other_model} of {len(stats)} graphs none is of {embedder.model}: "
            "words alone are searched there"
        )
    elif embedder.model in ENGLISH_MODELS and (
        others := await _of_other_languages(database, workspace)
    ):
        detail += f", which knows English best: {', '.join(others[:3])} may be in another language"
        fix = "pip install 'nodius-graphrag[multilingual]', NODIUS_EMBEDDINGS=multilingual, and"
        fix += " `nodius embed-nodes --force`; English is then found a little less well"
        return [Finding("vectors", "warning", detail, fix)]
    else:
        fix = None
        if embedder.model == local.MULTILINGUAL_MODEL and not await _of_other_languages(
            database, workspace
        ):
            fix = (
                "for English alone NODIUS_EMBEDDINGS=local finds a little more (docs/retrieval.md)"
            )
        return [Finding("vectors", "ok", detail, fix)]
    fix = "`nodius embed-nodes --force` renews all of them; with --dry-run it says what that takes"
    return [Finding("vectors", "warning", detail, fix)]


async def _of_other_languages(database: Database, workspace: str) -> list[str]:
    """Returns the names of graphs with another language than English.

    The language is the graph's own or, if it has none, that of its name and description.
    """
    graphs = await database.source(workspace).list_graphs()
    return [
        g.name for g in graphs if g.language or not is_english(f"{g.name} {g.description or ''}")
    ]


async def _embeddings(settings: Settings, patience_s: float, *, ask: bool) -> Finding:
    name = "embeddings"
    local = "set NODIUS_EMBEDDINGS=local to embed without a key or network"
    try:
        embedder = make_embedder(settings)
    except EmbeddingError as exc:
        return Finding(name, "error", str(exc), local)
    if embedder is None:
        fix = "set NODIUS_EMBEDDINGS=local (packaged, no key) to search by meaning too"
        return Finding(name, "warning", "turned off: text search only", fix)
    started = time.perf_counter()
    try:
        async with asyncio.timeout(patience_s):
            vectors = await embedder.embed(["a first text"])
    except TimeoutError:
        detail = f"{embedder.model} gave no answer within {patience_s:g} s"
        return Finding(name, "error", detail, local)
    except EmbeddingError as exc:
        return Finding(name, "error", str(exc), local)
    finally:
        await embedder.aclose()
    where = "in this process, no network" if embedder.model in PACKAGED else "over the network"
    took = f"; a text took {(time.perf_counter() - started) * 1e3:.1f} ms" if ask else ""
    detail = f"{embedder.model}, {vectors.shape[1]} dimensions, {where}{took}"
    return Finding(name, "ok", detail)


def _tokenizer() -> Finding:
    name = tokenizer_name()
    if "offline" in name:
        fix = "for exact counts of OpenAI's models: pip install 'nodius-graphrag[tokens]'"
        return Finding("tokenizer", "ok", name, fix)
    return Finding("tokenizer", "ok", name)


async def _model(settings: Settings, patience_s: float, *, ask: bool) -> Finding:
    """Reports which model answers. Asks a local server for its models and, with `ask`, any for an
    answer.
    """
    try:
        choice = choose(settings)
        provider = make_provider(choice, offline=rules_provider)
    except SettingsError as exc:
        fix = "NODIUS_PROVIDER=offline does without"
        return Finding(_MODEL, "error", str(exc), fix)
    where = f"{choice.entry.name}, model {choice.model!r} at {choice.base_url}"
    try:
        if choice.entry.kind == "offline":
            missing = ", ".join(str(ENTRIES[name].key_variable) for name in DETECTED)
            detail = "no key of a model service; everything here works without"
            return Finding(_MODEL, "ok", detail, f"to use one set {missing}")
        window = f"window {choice.context_window:,} tokens"
        async with asyncio.timeout(ASK_PATIENCE_S if ask else patience_s):
            if choice.learns_window and isinstance(provider, LearnsWindow):
                facts = await provider.facts()
                if facts.window:
                    window = f"window {facts.window:,} tokens, as it says"
                if facts.models and choice.model not in facts.models and choice.entry.model is None:
                    served = ", ".join(facts.models[:5])
                    detail = f"{where}: it serves no such model, but {served}"
                    return Finding(_MODEL, "error", detail, "set NODIUS_MODEL")
            answer_part = f"; it answers {await _answer(provider)}" if ask else ""
        return Finding(_MODEL, "ok", f"{where}, {window}{answer_part}")
    except TimeoutError:
        detail = f"{where}: no answer in time"
    except ModelError as exc:
        detail = f"{where}: {exc}"
    finally:
        await provider.aclose()
    fix = "start the server, or set NODIUS_LLM_BASE_URL, NODIUS_MODEL or the key that fits"
    return Finding(_MODEL, "error", detail, fix)


async def _answer(provider: LLMProvider) -> str:
    answer = await complete(
        provider, [UserMessage(content=QUESTION)], options=ModelOptions(max_tokens=200)
    )
    return repr(" ".join(answer.text.split())[:60])
