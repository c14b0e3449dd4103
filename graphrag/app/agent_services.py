"""Constructs the declarative agents of a workspace: allowed addresses, secrets, and their
manager.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path
from typing import Final

from datasources.base import GraphDataSource, RecordStore
from graphrag.agent.thread_store import Threads
from graphrag.agent.turn_lease import TurnLeases
from graphrag.agents.agent_store import Agents
from graphrag.agents.chat_values import Locale, http_sentence
from graphrag.agents.deliveries import LifeParts
from graphrag.agents.life import AgentLife
from graphrag.agents.manager import AgentManager
from graphrag.agents.world import World
from graphrag.app.listeners import WorkspaceListeners
from graphrag.app.voice_trial import voice_problem
from graphrag.config import Settings, SettingsError
from graphrag.leases import now_ms
from graphrag.samples.restaurant_bodies import register_sample_builders
from tools.http.addresses import AddressRules
from tools.http.builders import load_builders
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
    listeners: WorkspaceListeners,
    keeps_lists: bool = False,
) -> tuple[AgentManager, AgentLife]:
    """Returns the manager of a workspace's agents and the life of its conversations with them.

    With `keeps_lists`, ticks of the manager follow the lists of agents in the settings.
    """
    rules = rules_of(settings)

    def new_executor() -> HttpExecutor:
        return HttpExecutor(
            HttpClient(rules), secrets, now_ms, http_sentence, on_tool=listeners.agent_tool_ran
        )

    manager = AgentManager(
        Agents(records, settings.workspace),
        World(settings, source, secrets, rules, try_voice=partial(voice_problem, settings)),
        new_executor,
        list_files=settings.agent_sources if keeps_lists else (),
        on_list_synced=listeners.list_synced,
    )
    locale = Locale(language=settings.language, timezone=settings.timezone)
    leases = TurnLeases(records)
    parts = LifeParts(
        records,
        threads,
        manager,
        workspace=settings.workspace,
        locale=locale,
        leases=leases,
        on_delivery_tried=listeners.delivery_tried,
    )
    return manager, AgentLife(parts)


def rules_of(settings: Settings) -> AddressRules:
    """Returns the rules for the hosts that agents may reach. Raises: SettingsError."""
    own = ((settings.host, settings.port),)
    try:
        return AddressRules(allow=settings.agent_http_allow, only=settings.agent_http_only, own=own)
    except ValueError as exc:
        origin = "NODIUS_AGENT_HTTP_ALLOW"
        raise SettingsError(name="agent_http_allow", origin=origin, reason=str(exc)) from exc


def load_all_builders(settings: Settings) -> None:
    """Registers the sample body builders and those of the settings. Raises: SettingsError."""
    register_sample_builders()
    try:
        load_builders(settings.body_builders)
    except (ValueError, TypeError, ImportError, AttributeError) as exc:
        raise SettingsError(
            name="body_builders", origin="NODIUS_BODY_BUILDERS", reason=str(exc)
        ) from exc


def load_secrets(settings: Settings) -> Secrets:
    """Returns the secrets of agents, from environment variables and from the files of a folder;
    variables have precedence.

    Raises: SettingsError.
    """
    values = {name: value.get_secret_value() for name, value in settings.agent_secrets.items()}
    if settings.secrets_dir is not None:
        try:
            files = sorted(Path(settings.secrets_dir).iterdir())
        except OSError as exc:
            reason = exc.strerror or "it cannot be read"
            raise SettingsError(
                name="secrets_dir", origin=settings.secrets_dir, reason=reason
            ) from exc
        values = {file.name: read for file in files if (read := _read(file)) is not None} | values
    return Secrets({name: value for name, value in values.items() if value})


def _read(file: Path) -> str | None:
    """Returns the content of a secret's file without line ends, None if it is no such file."""
    try:
        if (
            not _NAME.fullmatch(file.name)
            or not file.is_file()
            or file.stat().st_size > MAX_SECRET_BYTES
        ):
            return None
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        log.warning("secret_unreadable", extra={"secret": file.name})
        return None
