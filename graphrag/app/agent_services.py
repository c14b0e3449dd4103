"""Puts the declarative agents of a workspace together: what they may reach, their secrets, their manager."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from datasources.base import GraphDataSource, RecordStore
from datasources.errors import GraphNotFound
from graphrag.agent.thread_store import Threads
from graphrag.agents.agent_store import Agents
from graphrag.agents.chat_values import Locale
from graphrag.agents.life import AgentLife, life_of
from graphrag.agents.manager import AgentManager, AgentSetting
from graphrag.agents.sync import AgentLists
from graphrag.config import Settings, SettingsError
from graphrag.i18n import Language, text
from graphrag.leases import now_ms
from graphrag.llm.registry import ENTRIES, choose
from tools.http.executor import HttpExecutor
from tools.http.fetch import HttpClient
from tools.http.secret_values import Secrets

log = logging.getLogger(__name__)

MAX_SECRET_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


def agents_of(
    settings: Settings,
    source: GraphDataSource,
    records: RecordStore,
    threads: Threads,
    *,
    secrets: Secrets,
    keeps_lists: bool = False,
) -> tuple[AgentManager, AgentLife]:
    """Return the manager of a workspace's agents and the life of its conversations with them.

    With `keeps_lists` the manager's ticks follow the lists of the settings.
    """
    setting = AgentSetting(
        world=WorkspaceWorld(settings, source, secrets),
        new_client=HttpClient,
        new_executor=lambda client: HttpExecutor(client, secrets, now_ms, sentence),
    )
    manager = AgentManager(Agents(records, settings.workspace), setting)
    manager.lists = AgentLists(manager, files=settings.agent_sources if keeps_lists else ())
    locale = Locale(language=settings.language, timezone=settings.timezone)
    life = life_of(records, threads, manager, workspace=settings.workspace, locale=locale)
    manager.endings = life.endings
    return manager, life


class WorkspaceWorld:
    """What is there for the agents of a workspace (World)."""

    def __init__(self, settings: Settings, source: GraphDataSource, secrets: Secrets) -> None:
        self._settings, self._source, self._secrets = settings, source, secrets

    async def has_graph(self, graph_key: str) -> bool:
        try:
            await self._source.get_graph(graph_key)
        except GraphNotFound:
            return False
        return True

    async def host_refused(
        self,
        host: str,  # noqa: ARG002
        port: int,  # noqa: ARG002
    ) -> Literal["refused", "unknown"] | None:
        return None

    def has_secret(self, name: str) -> bool:
        return not self._secrets.missing([name])

    def is_secret(self, text: str) -> bool:  # noqa: ARG002
        return False

    def providers(self) -> Collection[str]:
        return ENTRIES.keys()

    def has_model_key(self, provider: str | None) -> bool:
        try:
            choose(self._settings, provider)
        except SettingsError:
            return False
        return True


def load_secrets(settings: Settings) -> Secrets:
    """Return the secrets of agents: of variables, then of the files of a folder. Raises: SettingsError."""
    values = {name: value.get_secret_value() for name, value in settings.agent_secrets.items()}
    if settings.secrets_dir is not None:
        try:
            files = sorted(Path(settings.secrets_dir).iterdir())
        except OSError as exc:
            reason = exc.strerror or "it cannot be read"
            raise SettingsError(name="secrets_dir", origin=settings.secrets_dir, reason=reason) from exc
        values = {file.name: read for file in files if (read := _read(file)) is not None} | values
    return Secrets({name: value for name, value in values.items() if value})


def _read(file: Path) -> str | None:
    """Return what a secret's file holds without the line end; None for what is no secret's file."""
    try:
        if not _NAME.fullmatch(file.name) or not file.is_file() or file.stat().st_size > MAX_SECRET_BYTES:
            return None
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        log.warning("secret_unreadable", extra={"secret": file.name})
        return None


def sentence(code: str, language: str, fact: str) -> str:
    """Return what an agent is told of a request that failed."""
    known: Language = "fr" if language.lower().startswith("fr") else "en"
    return text(f"agent_http_{code}", known, fact=fact)
