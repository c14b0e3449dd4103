"""Puts the connections of a workspace together."""

from __future__ import annotations

from graphrag.app.wiring import Services
from graphrag.connections import Connections
from graphrag.connections.key_store import KeyStore


def connections_of(services: Services) -> Connections:
    """Returns the connections of a workspace to workflow servers."""
    settings = services.settings
    secret = settings.auth.secret
    return Connections(
        services.database.records(settings.workspace),
        services.approvals,
        KeyStore(secret.get_secret_value() if secret is not None else None),
    )
