"""Puts live graphs under the services of a workspace: questions see unsaved edits, editors see approvals."""

from __future__ import annotations

from dataclasses import replace

from graphrag.app.wiring import Services
from graphrag.approvals import Approvals, Policy
from graphrag.live.live_graphs import LiveGraphs
from graphrag.live.source import LiveSource, SettledSource
from graphrag.retrieval.retriever import Retriever


def with_live(services: Services, graphs: LiveGraphs) -> Services:
    """Return the services as a server uses them; `graphs` must read the same database."""
    stored, settings = services.source, services.settings
    source = LiveSource(stored, graphs)
    retriever = Retriever(
        source,
        services.retriever.embedder,
        options=services.retriever.options,
        cache_ttl_s=settings.cache_ttl_s,
    )
    return replace(
        services,
        source=source,
        retriever=retriever,
        approvals=Approvals(
            SettledSource(stored, graphs),
            services.database.records(stored.workspace),
            policy=Policy.of(settings.deciders),
            on_applied=services.embedding_queue.applied,
        ),
    )
