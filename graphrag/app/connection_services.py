"""Puts the connections of a workspace together."""

from __future__ import annotations

from graphrag.agent.turn_lease import TurnLeases
from graphrag.app.wiring import Services
from graphrag.config import Settings
from graphrag.connections import Connections, Following, RunningSyncs
from graphrag.connections.following import LEASE_PREFIX
from graphrag.connections.kept_documents import KeptDocuments
from graphrag.connections.key_store import KeyStore
from graphrag.connections.push_records import PushRecords
from graphrag.connections.push_watch import PushWatch
from graphrag.connections.pushes import Pushes


def connections_of(services: Services) -> Connections:
    """Returns the connections of a workspace to workflow servers."""
    settings = services.settings
    return Connections(
        services.database.records(settings.workspace), services.approvals, key_store_of(settings)
    )


def pushes_of(services: Services, connections: Connections) -> Pushes:
    """Returns what is written to the connected servers of a workspace."""
    return Pushes(
        push_records_of(services),
        services.approvals,
        connections,
        KeptDocuments(key_store_of(services.settings)),
    )


def watch_of(services: Services, connections: Connections) -> PushWatch:
    """Returns what watches the pushes of a workspace."""
    records = services.database.records(services.settings.workspace)
    return PushWatch(push_records_of(services), connections, services.source, records)


def push_records_of(services: Services) -> PushRecords:
    """Returns the stored pushes of a workspace."""
    records = services.database.records(services.settings.workspace)
    return PushRecords(records, services.approvals)


def following_of(services: Services, connections: Connections, syncs: RunningSyncs) -> Following:
    """Returns what keeps the connections of a workspace in step in the background."""
    records = services.database.records(services.settings.workspace)
    return Following(connections, syncs, TurnLeases(records, prefix=LEASE_PREFIX))


def key_store_of(settings: Settings) -> KeyStore:
    """Returns the keys of connections, sealed with the service's secret."""
    secret = settings.auth.secret
    return KeyStore(secret.get_secret_value() if secret is not None else None)
