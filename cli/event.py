"""The command `event`: starts the automations that wait for an event, as
`POST /api/events/NAME` does.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from cli import render
from cli.command import command
from cli.common import EXIT_FAILED, EXIT_NOTHING
from cli.inputs import STDIN, json_of
from cli.options import argument, option
from cli.output import Output
from graphrag.app.automation_services import automation_service
from graphrag.app.wiring import Services
from graphrag.automations.drafts import EventDraft
from graphrag.automations.event_starts import EventAnswer, start_by_event
from graphrag.i18n import Language, text
from graphrag.roles import Person


@command()
async def event(
    services: Services,
    person: Person,
    language: Language,
    name: Annotated[str, argument("NAME", "The event's name, such as order.failed.")],
    key: Annotated[
        str | None,
        option("--key", "KEY", "Ignore further events with this key for 7 days."),
    ] = None,
    data: Annotated[
        str | None, option("--data", "JSON", "Data that the runs can read (-: stdin).")
    ] = None,
) -> Output:
    """Start the automations that wait for an event: a server works on their runs."""
    text_of_data = sys.stdin.read() if data == STDIN else data
    value = None if text_of_data is None else json_of("--data", text_of_data)
    draft = EventDraft.read({"name": name, "key": key, "data": value})
    service = automation_service(services)
    started = await start_by_event(
        service, draft.name, draft.data, person, key=draft.key, language=language
    )
    code = 0 if started.started else EXIT_FAILED if started.refused else EXIT_NOTHING
    return Output(
        document=started.to_document(), text=partial(_show, started, language), exit_code=code
    )


def _show(event: EventAnswer, language: Language) -> None:
    code = "event_repeated" if event.repeated else "event_queued"
    for run in event.started:
        render.line(text(code, language, run=run.session_id, automation=run.automation_id))
    for refusal in event.refused:
        render.note(f"{refusal.automation_id}: {refusal.message}")
    if not event.started and not event.refused:
        code = "event_known" if event.repeated else "event_nobody"
        render.note(text(code, language, event=event.event))
