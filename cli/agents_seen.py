"""The command `agents-seen`: the programs that propose from outside, what each may,
and undoing one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from cli import render
from cli.common import usage_error
from cli.options import Common, argument, command, flag, option
from cli.policy import class_names
from graphrag.app.wiring import Services
from graphrag.approvals import Approval, title
from graphrag.approvals.programs import Program, ProgramRule, RuleDeciders
from graphrag.errors import describe
from graphrag.i18n import Language, text


@command()
async def agents_seen(
    common: Common,
    services: Services,
    program: Annotated[
        str | None,
        argument("[PROGRAM]", "key:ID, CHANNEL/NAME or CHANNEL, as the list shows them."),
    ] = None,
    block: Annotated[bool, flag("--block", "Take nothing more from it.")] = False,
    clear: Annotated[bool, flag("--clear", "Remove its rule.")] = False,
    undo: Annotated[bool, flag("--undo", "Undo all that was applied of it.")] = False,
    classes: Annotated[
        str | None, option("--classes", "CLASSES", "It may propose these alone.")
    ] = None,
    daily: Annotated[
        int | None, option("--daily", "N", "So many changes a day (UTC).", min=0)
    ] = None,
    deciders: Annotated[
        RuleDeciders | None, option("--deciders", "WHO", "workspace, reviewer, four-eyes.")
    ] = None,
) -> None:
    """List the programs that propose from outside (MCP, AG-UI, OpenAI's interface, REST),
    or rule one.
    """
    rule = _ruled(block, classes, daily, deciders)
    if (rule is not None) + clear + undo > 1:
        usage_error(
            "give one of: a rule (--block, --classes, --daily, --deciders), --clear, --undo"
        )
    changes = rule is not None or clear or undo
    if program is None and changes:
        usage_error("name the PROGRAM")

    person = services.local_person()
    approvals = services.approvals
    language = services.settings.language
    if program is not None and undo:
        undone = await approvals.undo_program(program, person)
        said = [(one, describe(exc, language)) for one, exc in undone.refused]
        refused = [(one, known.message if known else "-") for one, known in said]
        kept = [{"approvalId": one.id, "message": message} for one, message in refused]
        document = {"undone": [one.undoes for one in undone.done], "refused": kept}
        common.say(document, partial(_show_undone, len(undone.done), refused, language))
        return
    if program is not None and changes:
        found = await approvals.set_program_rule(program, rule, person)
    else:
        found = [one for one in await approvals.programs(person) if program in (None, one.id)]
    common.say([one.model_dump() for one in found], partial(_show, found, language))


def _ruled(
    block: bool, classes: str | None, daily: int | None, deciders: RuleDeciders | None
) -> ProgramRule | None:
    """Return the rule that the options make, None where there is none of them."""
    if not block and classes is None and daily is None and deciders is None:
        return None
    named = None if classes is None else tuple(class_names(classes))
    return ProgramRule(classes=named, daily=daily, deciders=deciders or "workspace", blocked=block)


def _show(found: Sequence[Program], language: Language) -> None:
    if found:
        columns = ["program", "version", "first", "last", "proposed", "rule"]
        render.table(columns, [_row(one) for one in found])
    else:
        typer.echo(text("programs_none", language))


def _row(program: Program) -> list[str]:
    rule = program.rule
    parts = list[str]()
    if rule is not None:
        parts = ["blocked"] if rule.blocked else []
        parts += [] if rule.classes is None else [f"only {', '.join(rule.classes) or '-'}"]
        parts += [] if rule.daily is None else [f"{program.today} of {rule.daily} today"]
        parts += [] if rule.deciders == "workspace" else [rule.deciders]
    times = ["-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
             for at in (program.first, program.last)]  # fmt: skip
    version = program.client.get("version", "-")
    return [program.id, version, *times, str(program.proposed), "; ".join(parts) or "-"]


def _show_undone(done: int, refused: Sequence[tuple[Approval, str]], language: Language) -> None:
    typer.echo(text("programs_undone", language, n=done, refused=len(refused)))
    for one, message in refused:
        typer.echo(f"  {one.id} {title(one, language)}: {message}")
