"""The command `agents-seen`: the programs that propose from outside, what each may, and undoing one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_USAGE, Common, argument, command, fail, flag, option, run
from cli.policy import class_names
from graphrag.app.wiring import Services
from graphrag.approvals import title
from graphrag.approvals.programs import Program, ProgramRule, RuleDeciders, Undone
from graphrag.errors import describe
from graphrag.i18n import text


@command()
def agents_seen(
    common: Common,
    program: Annotated[
        str | None, argument("[PROGRAM]", "key:ID, CHANNEL/NAME or CHANNEL, as the list shows them.")
    ] = None,
    block: Annotated[bool, flag("--block", "Take nothing more from it.")] = False,
    clear: Annotated[bool, flag("--clear", "Remove its rule.")] = False,
    undo: Annotated[bool, flag("--undo", "Undo all that was applied of it.")] = False,
    classes: Annotated[str | None, option("--classes", "CLASSES", "It may propose these alone.")] = None,
    daily: Annotated[int | None, option("--daily", "N", "So many changes a day (UTC).", min=0)] = None,
    deciders: Annotated[
        RuleDeciders | None, option("--deciders", "WHO", "workspace, reviewer, four-eyes.")
    ] = None,
) -> None:
    """List the programs that propose from outside (MCP, AG-UI, OpenAI's interface, REST), or rule one."""
    rule = _ruled(block, classes, daily, deciders)
    if (rule is not None) + clear + undo > 1:
        fail(
            "give one of: a rule (--block, --classes, --daily, --deciders), --clear, --undo", code=EXIT_USAGE
        )
    changes = rule is not None or clear or undo
    if program is None and changes:
        fail("name the PROGRAM", code=EXIT_USAGE)

    async def work(services: Services) -> list[Program] | Undone:
        person, approvals = services.local_person(), services.approvals
        if program is None or not changes:
            found = await approvals.programs(person)
            return [one for one in found if program in (None, one.id)]
        if undo:
            return await approvals.undo_program(program, person)
        return await approvals.set_program_rule(program, rule, person)

    found = run(common.settings(), work)
    if isinstance(found, Undone):
        _show_undone(found, common)
    else:
        _show(found, common)


def _ruled(
    block: bool, classes: str | None, daily: int | None, deciders: RuleDeciders | None
) -> ProgramRule | None:
    """Return the rule that the options make, None where there is none of them."""
    if not block and classes is None and daily is None and deciders is None:
        return None
    named = None if classes is None else tuple(class_names(classes))
    return ProgramRule(classes=named, daily=daily, deciders=deciders or "workspace", blocked=block)


def _show(found: Sequence[Program], common: Common) -> None:
    if common.as_json:
        render.json([one.model_dump() for one in found])
    elif not found:
        typer.echo(text("programs_none", common.settings().language))
    else:
        columns = ["program", "version", "first", "last", "proposed", "rule"]
        render.table(columns, [_row(one) for one in found])


def _row(program: Program) -> list[str]:
    rule, parts = program.rule, list[str]()
    if rule is not None:
        parts = ["blocked"] if rule.blocked else []
        parts += [] if rule.classes is None else [f"only {', '.join(rule.classes) or '-'}"]
        parts += [] if rule.daily is None else [f"{program.today} of {rule.daily} today"]
        parts += [] if rule.deciders == "workspace" else [rule.deciders]
    times = ["-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
             for at in (program.first, program.last)]  # fmt: skip
    version = program.client.get("version", "-")
    return [program.id, version, *times, str(program.proposed), "; ".join(parts) or "-"]


def _show_undone(found: Undone, common: Common) -> None:
    language = common.settings().language
    said = [(one, describe(exc, language)) for one, exc in found.refused]
    refused = [(one, known.message if known else "-") for one, known in said]
    if common.as_json:
        kept = [{"approvalId": one.id, "message": message} for one, message in refused]
        render.json({"undone": [one.undoes for one in found.done], "refused": kept})
        return
    typer.echo(text("programs_undone", language, n=len(found.done), refused=len(refused)))
    for one, message in refused:
        typer.echo(f"  {one.id} {title(one, language)}: {message}")
