"""The state of a running server, in groups. `startup` makes it, whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from graphrag.app import wiring
from graphrag.app.api_keys import ApiKeys
from graphrag.app.automation_trial import TrialPlaces
from graphrag.app.service_settings import ServiceSettings
from graphrag.automations.scheduler import Scheduler
from graphrag.config import Settings
from graphrag.live import LiveGraphs
from graphrag.llm.base import LLMProvider
from graphrag.voice.call_slots import CallSlots
from server.auth import Authenticator
from server.downloads import Downloads
from server.http_connections import OpenConnections
from server.limits import RateLimits
from server.mcp.open_sessions import OpenSessions
from server.metrics import Metrics
from server.oidc import IdentityProvider
from server.open_workspaces import OpenWorkspaces, Workspace
from server.server_backup import ServerBackup
from server.turns import RunningTurns
from server.webhooks import Webhooks
from server.write_probe import WriteProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """Identifies callers. `identity_provider`: where people sign in to the page, if anywhere."""

    authenticator: Authenticator
    identity_provider: IdentityProvider | None
    api_keys: ApiKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The work that is under way in this process, each kind with its bounds."""

    connections: OpenConnections
    turns: RunningTurns
    downloads: Downloads
    call_slots: CallSlots
    mcp_sessions: OpenSessions
    trials: TrialPlaces


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Reports to operators: counters, requests to their address, and the readiness probe."""

    metrics: Metrics
    webhooks: Webhooks
    write_probe: WriteProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The services behind the endpoints. `live`: the graphs that people edit here."""

    shared: wiring.Shared
    live: LiveGraphs
    model: LLMProvider
    workspaces: OpenWorkspaces
    scheduler: Scheduler
    service_settings: ServiceSettings
    backup: ServerBackup


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """Everything that the endpoints of a running server work with."""

    settings: Settings
    authentication: Authentication
    limits: RateLimits
    activity: Activity
    monitoring: Monitoring
    backend: Backend

    async def workspace(self, name: str) -> Workspace:
        """Returns a workspace, opened if need be.

        Raises: SettingsError where the model's key or address is missing.
        """
        return await self.backend.workspaces.get(name)

    async def services(self, name: str) -> wiring.Services:
        """Returns the services of a workspace."""
        return (await self.workspace(name)).services
