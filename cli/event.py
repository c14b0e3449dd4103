"""The command `event`: starts the automations that wait for an event, as
`POST /api/events/NAME` does.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer

from cli import render
from cli.common import EXIT_FAILED, EXIT_NOTHING, usage_error
from cli.options import Common, argument, command, option
from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services
from graphrag.automations.drafts import EventDraft
from graphrag.automations.event_starts import EventAnswer, start_by_event
from graphrag.i18n import Language, text


@command()
async def event(
    common: Common,
    services: Services,
    name: Annotated[str, argument("NAME", "The event's name, as order.failed.")],
    key: Annotated[
        str | None, option("--key", "KEY", "With the same key it is taken once in 7 days.")
    ] = None,
    data: Annotated[str | None, option("--data", "JSON", "What the runs read (-: stdin).")] = None,
) -> None:
    """Start the automations that wait for an event: a server works on their runs."""
    language = services.settings.language
    person = services.local_person()
    given = EventDraft.read({"name": name, "key": key, "data": _json_of(data)})
    service = automation_service(services)
    found = await start_by_event(
        service, given.name, given.data, person, key=given.key, language=language
    )
    common.say(found.to_document(), partial(_show, found, language))
    if not found.started:
        raise typer.Exit(EXIT_FAILED if found.refused else EXIT_NOTHING)


def _json_of(data: str | None) -> Any:
    try:
        return None if data is None else json.loads(sys.stdin.read() if data == "-" else data)
    except (ValueError, RecursionError) as exc:
        usage_error(f"--data: this is no JSON ({exc})")


def _show(found: EventAnswer, language: Language) -> None:
    said = "event_repeated" if found.repeated else "event_queued"
    for run in found.started:
        render.line(text(said, language, run=run.session_id, automation=run.automation_id))
    for one in found.refused:
        render.note(f"{one.automation_id}: {one.message}")
    if not found.started and not found.refused:
        render.note(
            text("event_known" if found.repeated else "event_nobody", language, event=found.event)
        )
