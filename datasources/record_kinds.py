"""The kinds of records, and the fields by which each may be queried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from datasources.errors import UnknownIndexField

# The record kinds and the fields of `data` by which each may be queried.
RECORD_INDEXES: Mapping[str, tuple[str, ...]] = {
    "thread": (
        *("agentOpen", "graphKey", "userId", "lastUpdatedTime"),
        *("agentId", "agentIdleTime"),
    ),
    "approval": (
        *("graphKey", "threadId", "status", "userId", "createdTime", "expiresTime"),
        *("automationId", "proposalHash", "spokenCode"),
    ),
    "undo": ("graphKey", "time"),
    "approval_shown": ("graphKey", "time"),
    "audit": ("graphKey", "sequence", "userId", "approvalId"),
    "lease": ("owner", "expiresTime", "graphKey"),
    "journal": ("graphKey", "sequence"),
    "history": ("graphKey", "timestamp"),
    "session": (
        "graphKey",
        "userId",
        "automationId",
        "open",
        "tended",
        "phase",
        "queuedTime",
        "scheduledTime",
        "lastUpdatedTime",
    ),
    "automation": ("graphKey", "userId", "enabled", "nextTime", "event"),
    "automation_rules": (),
    "event_key": ("time",),
    "webhook": ("inWorkspace", "nextTime", "createdTime"),
    "mail": ("nextTime",),
    "member": ("seenTime",),
    "policy": (),
    "service_settings": (),
    "openai_chat": ("time",),
    "api_key": ("user", "created"),
    "agent": ("agentId", "desired", "updatedTime"),
    "agent_list": (),
    "agent_version": (),
    "delivery": ("agentId", "callId", "status", "nextTime"),
    "deleted_graph": ("graphKey", "deletedTime"),
    "trace": ("threadId", "graphKey", "time"),
    "deleted_content": (),
    "connection": (),
    "connection_link": ("connection", "graphKey"),
    "connection_push": ("connection", "createdTime"),
    "imports": (),
    "usage": (),
    "embedding": (),
    "database_copy": (),
    "demo_contents": (),
    "call": ("agentId", "open", "status", "outcome", "startedTime", "nextTime"),
}

# The kinds whose changes a database tells, where it can: something waits for them.
TOLD_KINDS: Final = frozenset(
    (
        *("approval", "lease", "thread", "session", "automation"),
        *("delivery", "call", "connection", "api_key"),
    )
)
GRAPH: Final = "graph"  # the kind of a notice that a graph changed

Where = Mapping[str, str | int | bool]  # values of indexed fields


class QueryOptions(TypedDict, total=False):
    """The order and maximum number (100) of the records of a query.

    `at_least` and `at_most` select records whose `order_by` field is a number within these bounds,
    inclusive.
    """

    order_by: str | None
    at_least: int | None
    at_most: int | None
    descending: bool
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """A query for records of a kind; see `RecordStore.query`."""

    kind: str
    where: Where
    order_by: str | None = None
    at_least: int | None = None
    at_most: int | None = None
    descending: bool = False
    limit: int = 100

    @staticmethod
    def of(kind: str, where: Where | None = None, **how: Unpack[QueryOptions]) -> RecordQuery:
        """Returns the query for the arguments of `RecordStore.query`. Raises: UnknownIndexField."""
        how["limit"] = max(0, how.get("limit", 100))
        asked = RecordQuery(kind=kind, where=where or {}, **how)
        asked.fields()
        return asked

    @property
    def bounded(self) -> bool:
        return self.at_least is not None or self.at_most is not None

    def fields(self) -> tuple[str, ...]:
        """Returns the fields by which the kind may be queried.

        Raises: UnknownIndexField if the query uses another field.
        """
        indexed = RECORD_INDEXES.get(self.kind, ())
        for name in (
            *self.where,
            *([self.order_by or ""] if self.order_by is not None or self.bounded else []),
        ):
            if name not in indexed:
                raise UnknownIndexField(kind=self.kind, field=name, known=indexed)
        return indexed
