"""A proposal as it is stored, with its preview, its decision and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer
from pydantic.alias_generators import to_camel

from datasources.base import Record, RecordWrite
from datasources.errors import BadDocument
from graphrag.approvals.validation import Demand
from graphrag.roles import Person
from tools.proposal_parts import AS_STORED
from tools.proposals import Action, ProposedAction, to_document

KIND = "approval"
SCHEMA_VERSION = 1
SYSTEM = "system"
"""Who decides when nobody does: proposals expire."""
POLICY = "policy"
"""Who decides what no level demands a person for; its role is `SYSTEM`."""

Status = Literal["pending", "applied", "rejected", "expired", "stale", "failed"]
Apart = Literal["undo", "approval_shown"]
"""Kinds of records that keep a large part of an approval; see `stored_parts`."""
Verdict = Literal["approve", "approve_edited", "reject", "expire"]


@final
@dataclass(frozen=True, slots=True)
class Approve:
    """Carry the action out as it is shown. The model reads the feedback of every decision."""

    feedback: str = ""


@final
@dataclass(frozen=True, slots=True)
class ApproveEdited:
    """Carry out this action instead."""

    action: Action | Mapping[str, Any]
    feedback: str = ""


@final
@dataclass(frozen=True, slots=True)
class Reject:
    """Do not carry it out."""

    feedback: str = ""


Decision = Approve | ApproveEdited | Reject


class _StoredModel(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
    )


@final
class Decided(_StoredModel):
    """Who decided what and when. Of an edit both actions are kept: this one was carried out.

    `levels` are the classes that each level demanded, where it was decided by policy.
    Units: `at` in milliseconds since 1970.
    """

    verdict: Verdict
    by: str
    role: str
    at: int
    feedback: str = ""
    action: ProposedAction | None = None
    action_hash: str | None = None
    preview: dict[str, Any] | None = None
    levels: dict[str, list[str]] | None = None

    @field_serializer("action")
    def _plain(self, action: Action | None) -> dict[str, Any] | None:
        return None if action is None else to_document(action)


@final
class Reason(_StoredModel):
    """Why it came to nothing, or what to know before: a message's code and what stands
    in its places.
    """

    code: str
    facts: dict[str, str] = Field(default_factory=dict[str, str])


@final
class Outcome(_StoredModel):
    """What came of a decision. `mutation` and `inverse` are there when it was applied.

    `counts` says how many keys there are of each kind of which not all are in `keys`.

    `conversion` is what clients are sent (`ai:apply_action`). `irregular` are edges among those
    that the inverse restores which never fitted the rules.
    """

    at: int
    revision: int | None = None
    keys: dict[str, list[str]] = Field(default_factory=dict[str, list[str]])
    reason: Reason | None = None
    conversion: dict[str, Any] | None = None
    mutation: dict[str, Any] | None = None
    inverse: dict[str, Any] | None = None
    irregular: list[str] = Field(default_factory=list[str])
    counts: dict[str, int] | None = None


@final
class Comment(_StoredModel):
    """What somebody said of a proposal. Units: `at` in milliseconds since 1970."""

    by: str
    at: int
    text: str


def _named(name: str, **more: Any) -> Any:
    return Field(validation_alias=name, serialization_alias=name, **more)


@final
class Approval(_StoredModel):
    """One proposal. `names` are the action's own names of new nodes, with the keys they were given.
    `labels` are what people called the nodes and types that it names when it was made.

    `undoes` names the approval whose change this one takes back, `undoes_also` those of the same
    turn that it takes back with it; `undone_by` is the other way round. `reasons` are the levels
    that demand a person; without any, `needs_person` is false and it may be decided by policy.
    `codemod_id` is shared by the parts of one replacement over many graphs. `warnings` are for who
    decides, as things were when it was made. `proposal_hash` is the same for every proposal of this
    change. `comments`, oldest first, are there once somebody said something. `voice_code` is what a
    caller names it by. `client` is the program that proposed it (`channel`, `name`, `version`,
    `keyId`), `program` its id where it came from outside. `automation_id`, `scheduled_time` and
    `seed_version` name the run that proposed it, where that was no conversation. `apart` names the
    records that keep its large parts, once it is settled, and `apart_bytes` their size.
    Units: times in milliseconds since 1970.
    """

    id: str
    workspace: str
    graph_key: str
    thread_id: str
    turn: int
    tool_call_id: str
    action: ProposedAction
    action_hash: str
    base_revision: int
    touched: dict[str, str]
    preview: dict[str, Any]
    reason: str = ""
    asker: str = _named("userId")
    model: str
    created: int = _named("createdTime")
    expires: int = _named("expiresTime")
    status: Status = "pending"
    reasons: tuple[Demand, ...] = ()
    needs_person: bool = True
    warnings: tuple[Reason, ...] = ()
    codemod_id: str | None = None
    automation_id: str | None = None
    scheduled_time: int | None = None
    seed_version: int | None = None
    proposal_hash: str | None = None
    voice_code: str | None = _named("spokenCode", default=None)
    depends_on: tuple[str, ...] = ()
    names: dict[str, str] = Field(default_factory=dict[str, str])
    labels: dict[str, str] = Field(default_factory=dict[str, str])
    decision: Decided | None = None
    result: Outcome | None = None
    undoes: str | None = None
    undoes_also: tuple[str, ...] = ()
    undone_by: str | None = None
    comments: tuple[Comment, ...] | None = None
    client: dict[str, str] | None = None
    program: str | None = None
    apart: tuple[Apart, ...] = ()
    apart_bytes: int = 0
    schema_version: Literal[1] = SCHEMA_VERSION
    version: str | None = Field(default=None, exclude=True)

    @field_serializer("action")
    def _plain(self, action: Action) -> dict[str, Any]:
        return to_document(action)

    @property
    def is_open(self) -> bool:
        return self.status == "pending"

    @property
    def is_by_policy(self) -> bool:
        """Whether no person decided it, because no level demanded one."""
        return self.decision is not None and (self.decision.by, self.decision.role) == (
            POLICY,
            SYSTEM,
        )

    @property
    def effective_action(self) -> Action:
        """The action that was, or would be, carried out."""
        return self.decision.action if self.decision and self.decision.action else self.action

    @property
    def effective_preview(self) -> Mapping[str, Any]:
        return self.decision.preview if self.decision and self.decision.preview else self.preview

    def changed(self, **changes: Any) -> Approval:
        return self.model_copy(update=changes)

    def to_document(self) -> dict[str, Any]:
        """Return it as stored. What may hold thousands of documents is shared, not copied."""
        of_result = ("conversion", "mutation", "inverse")
        left_out: dict[str, Any] = {"action": True, "preview": True, "result": set(of_result)}
        document = self.model_dump(by_alias=True, exclude_none=True, exclude=left_out)
        document |= {"action": to_document(self.action), "preview": self.preview}
        if self.result is not None:
            found = {name: getattr(self.result, name) for name in of_result}
            document["result"] |= {name: part for name, part in found.items() if part is not None}
        return document

    def write(self) -> RecordWrite:
        """Return the write that stores it in place of the version that was read."""
        return RecordWrite(
            kind=KIND, key=self.id, data=self.to_document(), expected_version=self.version
        )


def from_record(record: Record) -> Approval:
    """Read a stored approval. Raises: BadDocument, also for the form of a newer program."""
    # `deciders` was stored by an earlier version, which had rules for single programs.
    data = {name: value for name, value in record.data.items() if name != "deciders"}
    try:
        return Approval.model_validate(
            {**data, "version": record.version}, by_alias=True, context=AS_STORED
        )
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadDocument(
            collection=KIND, key=record.key, field=where, reason=first["msg"]
        ) from exc


def decided(decision: Decision, by: Person, at: int) -> Decided:
    """Return a decision as it is stored; of an edit, as if it had changed nothing."""
    verdict = "reject" if isinstance(decision, Reject) else "approve"
    feedback = clean(decision.feedback)[:MAX_FEEDBACK]
    return Decided(verdict=verdict, by=by.user_id, role=by.role, at=at, feedback=feedback)


MAX_FEEDBACK = 4_000


def clean(text: str) -> str:
    """Return the text as it can be stored: half a surrogate pair is no character."""
    return text.encode("utf-8", "replace").decode()
