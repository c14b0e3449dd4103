"""The stored form of a proposal, with its preview, its decision and its outcome."""

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
SYSTEM = "system"  # The user of decisions without a person, such as expiry.
# The user of decisions by policy, if no level requires a person. Its role is `SYSTEM`.
POLICY = "policy"

Status = Literal["pending", "applied", "rejected", "expired", "stale", "failed"]
# Kinds of records that hold a large part of an approval; see `stored_parts`.
Apart = Literal["undo", "approval_shown"]
Verdict = Literal["approve", "approve_edited", "reject", "expire"]


@final
@dataclass(frozen=True, slots=True)
class Approve:
    """Applies the action as shown. The model reads the feedback of each decision."""

    feedback: str = ""


@final
@dataclass(frozen=True, slots=True)
class ApproveEdited:
    """Applies this action instead."""

    action: Action | Mapping[str, Any]
    feedback: str = ""


@final
@dataclass(frozen=True, slots=True)
class Reject:
    """Does not apply the action."""

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
    """A stored decision. After an edit both actions are stored; this one was applied.

    `levels`: the classes that each level required, if policy decided. Units: `at` in milliseconds
    since 1970.
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
    """The reason of a failure, or a warning: the code of a message and its values."""

    code: str
    facts: dict[str, str] = Field(default_factory=dict[str, str])


@final
class Outcome(_StoredModel):
    """The outcome of a decision. `mutation` and `inverse` exist if it was applied.

    `counts`: the number of keys, for kinds whose keys are not all listed in `keys`. `conversion`:
    the form for clients (`ai:apply_action`). `irregular`: restored edges that violated the rules
    before.
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
    """A comment on a proposal. Units: `at` in milliseconds since 1970."""

    by: str
    at: int
    text: str


def _stored_as(name: str, **more: Any) -> Any:
    return Field(validation_alias=name, serialization_alias=name, **more)


@final
class Approval(_StoredModel):
    """One proposal.

    `names`: the action's own names of new nodes, with their keys. `labels`: the display names of
    the nodes and types in the action at the time of the proposal.

    `undoes`: the approval whose change this one undoes; `undoes_also`: others of the same turn;
    `undone_by`: the reverse. `reasons`: the levels that require a person; if empty, `needs_person`
    is false and policy may decide. `warnings`: for the person who decides, as of the time of the
    proposal. `proposal_hash`: equal for all proposals of the same change. `comments`: oldest first.
    `voice_code`: the name that callers use.

    `codemod_id`: shared by the parts of a replacement over many graphs. `client`: the proposing
    program (`channel`, `name`, `version`, `keyId`); `program`: its id, for programs outside of the
    service. `automation_id`, `scheduled_time` and `seed_version`: the proposing run, if it was not
    a conversation. `apart`: the records with the large parts of a settled proposal; `apart_bytes`:
    their size. Units: times in milliseconds since 1970.
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
    asker: str = _stored_as("userId")
    model: str
    created: int = _stored_as("createdTime")
    expires: int = _stored_as("expiresTime")
    status: Status = "pending"
    reasons: tuple[Demand, ...] = ()
    needs_person: bool = True
    warnings: tuple[Reason, ...] = ()
    codemod_id: str | None = None
    automation_id: str | None = None
    scheduled_time: int | None = None
    seed_version: int | None = None
    proposal_hash: str | None = None
    voice_code: str | None = _stored_as("spokenCode", default=None)
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
        """Whether policy decided, since no level required a person."""
        return self.decision is not None and (self.decision.by, self.decision.role) == (
            POLICY,
            SYSTEM,
        )

    @property
    def effective_action(self) -> Action:
        """The action that was applied, or would be."""
        return self.decision.action if self.decision and self.decision.action else self.action

    @property
    def effective_preview(self) -> Mapping[str, Any]:
        return self.decision.preview if self.decision and self.decision.preview else self.preview

    def changed(self, **changes: Any) -> Approval:
        return self.model_copy(update=changes)

    def to_document(self) -> dict[str, Any]:
        """Returns the stored form. Its large parts are not copied, since they may contain thousands
        of documents.
        """
        result_fields = ("conversion", "mutation", "inverse")
        excluded: dict[str, Any] = {"action": True, "preview": True, "result": set(result_fields)}
        document = self.model_dump(by_alias=True, exclude_none=True, exclude=excluded)
        document |= {"action": to_document(self.action), "preview": self.preview}
        if self.result is not None:
            result_parts = {name: getattr(self.result, name) for name in result_fields}
            document["result"] |= {
                name: part for name, part in result_parts.items() if part is not None
            }
        return document

    def write(self) -> RecordWrite:
        """Returns the write that stores it over the version that was read."""
        return RecordWrite(
            kind=KIND, key=self.id, data=self.to_document(), expected_version=self.version
        )


def from_record(record: Record) -> Approval:
    """Returns a stored approval. Raises: BadDocument, also for the format of a newer version."""
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
    """Returns the stored form of a decision. An edit is stored as if it changed nothing."""
    verdict = "reject" if isinstance(decision, Reject) else "approve"
    feedback = clean(decision.feedback)[:MAX_FEEDBACK]
    return Decided(verdict=verdict, by=by.user_id, role=by.role, at=at, feedback=feedback)


MAX_FEEDBACK = 4_000


def clean(text: str) -> str:
    """Returns the text without halves of surrogate pairs, which cannot be stored."""
    return text.encode("utf-8", "replace").decode()
