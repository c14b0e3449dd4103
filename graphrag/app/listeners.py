"""Functions that the services call at events, used by a server for metrics and notifications.

They are passed when the services are constructed. They may not raise or block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphrag.agent.requested_calls import CallRecord
from graphrag.approvals import Approval
from graphrag.embedding.refresh import EmbedReport
from graphrag.llm.usage_meter import CallUsage
from tools.http.executor import OnTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessListeners:
    """Listeners of the services that all workspaces of a process share."""

    model_called: Callable[[CallUsage], None] | None = None
    tool_called: Callable[[CallRecord], None] | None = None
    batch_embedded: Callable[[EmbedReport], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceListeners:
    """Listeners of the services of one workspace.

    `retrieved` gets the seconds of a retrieval, `proposed` the proposals that a person must decide,
    `decided` every decision and undo, `delivery_tried` the status after each attempt, `list_synced`
    the outcome of each round of a list of agents.
    """

    retrieved: Callable[[float], None] | None = None
    proposed: Callable[[Approval], None] | None = None
    decided: Callable[[Approval], None] | None = None
    agent_tool_ran: OnTool | None = None
    delivery_tried: Callable[[str], None] | None = None
    list_synced: Callable[[str], None] | None = None
