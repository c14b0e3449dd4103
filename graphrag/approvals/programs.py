"""The programs that propose from outside: those seen, what each may propose, and taking back
what one did.

A program is known by its API key, else by its channel and the name that it gives itself. A rule is
for one key (`key:ID`), for a name on a channel (`mcp/NAME`) or for a whole channel (`mcp`); the
most special one holds alone. Nobody has checked a name, so what must hold for all that come by a
channel is said of the channel. The page, the Nodius editor, the command line, telephone calls and
automations have rules of their own.

Every proposal passes here, whichever channel it comes by. Its count against a day's limit is
stored before the proposal is: a limit is never exceeded, and a proposal that fails to be stored
has used one up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from datasources.base import Record, RecordWrite
from graphrag.approvals import errors
from graphrag.approvals.approval import Action, Approval
from graphrag.approvals.approval_context import ApprovalContext
from graphrag.approvals.undo import standing_of, undo
from graphrag.approvals.validation import ActionClass, classes_of
from graphrag.roles import ClientInfo, Person
from graphrag.stored_records import change_record, delete_record
from tools.proposals import hash_of, single_actions

SEEN, RULE = "program", "program_rule"
OUTSIDE: Final = frozenset({"api", "mcp", "ag-ui", "openai"})
"""The channels of programs that people wrote for themselves."""
UNATTENDED: Final = frozenset({"mcp", "openai"})
"""Those whose programs decide nothing: a person decides all that they propose,
whatever a policy allows.
"""
KEY_PREFIX = "key_"
"""Begins the ids of API keys; a signed token's id is of one sign-in, and names no program."""
MAX_SEEN, MAX_RULES, MAX_ID = 500, 200, 240
MAX_UNDONE = 1_000
FORMS = "key:ID, CHANNEL/NAME, CHANNEL"

RuleDeciders = Literal["workspace", "reviewer", "four-eyes"]


class ProgramRule(BaseModel):
    """What a program may propose. `classes`: of these alone; `daily`: so many a day (UTC);
    None: no bound.

    `deciders`: as the workspace says, only reviewers, or reviewers who did not ask; the last two
    demand a person for all that it proposes. `blocked`: nothing is taken from it.
    """

    model_config = ConfigDict(frozen=True)

    classes: (
        Annotated[tuple[ActionClass, ...], AfterValidator(lambda names: tuple(sorted(names)))]
        | None
    ) = None
    daily: int | None = None
    deciders: RuleDeciders = "workspace"
    blocked: bool = False


class Program(BaseModel):
    """A program that proposed, or that a rule is for. Units: `first`, `last` in milliseconds since
    1970, None for one that was not seen; `today`: what counted against its rule today.
    """

    id: str
    client: dict[str, str] = {}
    first: int | None = Field(default=None, validation_alias="firstTime")
    last: int | None = Field(default=None, validation_alias="lastTime")
    proposed: int = 0
    rule: ProgramRule | None = None
    today: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What was taken back of a program: the undos, and the changes that stand all the
    same, with why.
    """

    done: list[Approval] = field(default_factory=list[Approval])
    refused: list[tuple[Approval, errors.ApprovalError]] = field(
        default_factory=list[tuple[Approval, errors.ApprovalError]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A program whose proposal may be reviewed, and the rule that holds, with the key
    of its record.
    """

    id: str
    client: ClientInfo
    key: str | None = None
    rule: ProgramRule = field(default_factory=ProgramRule)

    @property
    def deciders(self) -> Literal["reviewer", "four-eyes"] | None:
        """Who decides by its rule; None: who the workspace says."""
        return None if self.rule.deciders == "workspace" else self.rule.deciders

    @property
    def is_watched(self) -> bool:
        """Whether a person decides all that it proposes."""
        return self.deciders is not None or self.client.channel in UNATTENDED


def ids_of(client: ClientInfo | None) -> tuple[str, ...]:
    """Return the ids by which a client is known, the most special first; none for
    one from within.
    """
    if client is None:
        return ()
    key = client.key_id if client.key_id and client.key_id.startswith(KEY_PREFIX) else None
    if key is None and client.channel not in OUTSIDE:
        return ()
    named = f"{client.channel}/{client.name.strip().casefold()}" if client.name.strip() else None
    return tuple(one for one in (key and f"key:{key}", named, client.channel) if one)


async def admit(context: ApprovalContext, client: ClientInfo | None) -> Admitted | None:
    """Return what holds for a program that wants to propose; None for one from within.

    Raises: ProgramRefused for one that is blocked, SourceError.
    """
    ids = ids_of(client)
    if client is None or not ids:
        return None
    rules = {record.data["id"]: record for record in await _rules(context)}
    chosen = next((rules[one] for one in ids if one in rules), None)
    if chosen is None:
        return Admitted(id=ids[0], client=client)
    rule = _rule(chosen.data)
    if rule.blocked:
        raise errors.ProgramBlocked(program=chosen.data["id"])
    return Admitted(id=ids[0], client=client, key=chosen.key, rule=rule)


def check_classes(admitted: Admitted, action: Action) -> None:
    """Raises: ProgramRefused for an action of a class that the program may not propose."""
    if admitted.rule.classes is None:
        return
    wanted = {name for _, single in single_actions(action) for name in classes_of(single)}
    if refused := sorted(wanted.difference(admitted.rule.classes)):
        allowed = ", ".join(admitted.rule.classes) or "-"
        raise errors.ClassesRefused(
            program=admitted.id, classes=", ".join(refused), allowed=allowed
        )


async def count(context: ApprovalContext, admitted: Admitted) -> None:
    """Count a proposal of a program. Raises: ProgramRefused when the day's are
    used up, SourceError.
    """
    now = context.clock()
    records = context.records

    def one_more_today(found: Record | None) -> dict[str, Any] | None:
        if (
            found is None or (daily := _rule(found.data).daily) is None
        ):  # the rule was changed meanwhile
            return None
        used = _today(context, found.data)
        if used >= daily:
            raise errors.DailyLimitReached(program=admitted.id, daily=daily)
        return {**found.data, "day": _day(context), "today": used + 1}

    def seen(found: Record | None) -> dict[str, Any]:
        known = found.data if found else {"id": admitted.id, "firstTime": now, "proposed": 0}
        client = admitted.client.to_document()
        return {**known, "client": client, "lastTime": now, "proposed": int(known["proposed"]) + 1}

    changes: list[tuple[str, str, Callable[[Record | None], dict[str, Any] | None]]] = []
    if admitted.key is not None and admitted.rule.daily is not None:
        changes.append((RULE, admitted.key, one_more_today))
    changes.append((SEEN, _key(admitted.id), seen))
    for kind, key, change in changes:
        work = partial(change_record, records, kind, key, change, tries=1)
        stored = await context.in_turn(f"{kind}/{key}", key, work)
        if kind == SEEN and stored is not None and stored.data["proposed"] == 1:
            # No more than MAX_SEEN are kept: one may call itself otherwise each time.
            known = await records.query(SEEN, order_by="lastTime", limit=MAX_SEEN + 1)
            for record in known[: max(0, len(known) - MAX_SEEN)]:
                await delete_record(records, record)


async def programs_seen(context: ApprovalContext, by: Person) -> list[Program]:
    """Return the programs that propose here from outside or have a rule, the last seen first.

    Raises: NotAllowed, SourceError.
    """
    _check_admin(context, by)
    rules = {record.data["id"]: record.data for record in await _rules(context)}
    seen = await context.records.query(SEEN, order_by="lastTime", descending=True, limit=MAX_SEEN)

    def program(data: Mapping[str, Any], rule: Mapping[str, Any] | None) -> Program:
        of_rule = {} if rule is None else {"rule": _rule(rule), "today": _today(context, rule)}
        return Program.model_validate({**data, **of_rule})

    found = [program(record.data, rules.pop(record.data["id"], None)) for record in seen]
    return [*found, *(program({"id": one}, data) for one, data in sorted(rules.items()))]


async def set_rule(
    context: ApprovalContext, program: str, rule: ProgramRule | None, by: Person
) -> list[Program]:
    """Say what a program may propose (None: what its channel may), audited; return
    all programs then.

    Raises: NotAllowed, ProgramUnknown, ProgramRulesFull, ApprovalBusy, SourceError.
    """
    _check_admin(context, by, program)
    key = _key(program)
    records = context.records
    said = {} if rule is None else rule.model_dump(mode="json")
    facts = {"event": "program_rule", "program": program, "rule": said}

    async def work() -> None:
        found = await records.get(RULE, key)
        if rule is None and found is None:
            return
        if found is None and len(await _rules(context)) >= MAX_RULES:
            raise errors.ProgramRulesFull(program=program, most=MAX_RULES)
        version = found.version if found else None
        data = None if rule is None else {**(found.data if found else {}), "id": program, **said}
        own = RecordWrite(kind=RULE, key=key, data=data, expected_version=version)
        await context.audited(by, facts, lambda entry: records.write([own, *entry]))

    await context.in_turn("", key, work)
    return await programs_seen(context, by)


async def undo_all(context: ApprovalContext, program: str, by: Person) -> Undone:
    """Take back what was applied of a program's proposals and stands, the latest first,
    at most MAX_UNDONE.

    Each is a change of its own: one on which later edits rest keeps none of the others from
    being taken back.
    Raises: NotAllowed, ProgramUnknown, SourceError.
    """
    _check_admin(context, by, program)
    undone = Undone()
    for approval in standing_of(
        await context.find(program=program, status="applied", limit=MAX_UNDONE)
    ):
        try:
            undone.done.append(await undo(context, approval.graph_key, approval.id, by=by))
        except errors.ApprovalError as exc:
            undone.refused.append((approval, exc))
    return undone


async def _rules(context: ApprovalContext) -> list[Record]:
    return await context.records.query(RULE, limit=MAX_RULES)


def _rule(data: Mapping[str, Any]) -> ProgramRule:
    """Read a stored rule; one that another program wrote otherwise blocks the program."""
    try:
        return ProgramRule.model_validate(dict(data))
    except ValidationError:
        return ProgramRule(blocked=True)


def _check_admin(context: ApprovalContext, by: Person, program: str | None = None) -> None:
    context.check(by, "admin", "programs_need_admin")
    if program is None:
        return
    known = program.startswith("key:") or program.split("/")[0] in OUTSIDE
    if not known or not program.isprintable() or len(program) > MAX_ID:
        channels = ", ".join(sorted(OUTSIDE))
        raise errors.ProgramUnknown(program=program[:80], forms=FORMS, channels=channels)


def _key(program: str) -> str:
    return hash_of(program)[:32]


def _day(context: ApprovalContext) -> str:
    return datetime.fromtimestamp(context.clock() / 1000, UTC).date().isoformat()


def _today(context: ApprovalContext, data: Mapping[str, Any]) -> int:
    return int(data.get("today", 0)) if data.get("day") == _day(context) else 0
