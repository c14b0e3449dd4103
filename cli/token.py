"""The `token` command: prints a signed token for somebody who is to sign in."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_USAGE, Common, command, fail, local_time, role_of
from graphrag.app.access_tokens import MAX_DAYS, sign_token
from graphrag.app.wiring import LOCAL_USER
from graphrag.config import SettingsError


@command()
def token(
    common: Common,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Who signs in with it; changes will bear this name.")
    ] = LOCAL_USER,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="viewer, editor, reviewer or admin.")
    ] = "editor",
    days: Annotated[
        float, typer.Option("--days", metavar="N", help=f"For how long, at most {MAX_DAYS}; 0.5: 12 hours.")
    ] = 30.0,
) -> None:
    """Print a token with which somebody signs in, signed with the service's secret (NODIUS_AUTH_SECRET)."""
    settings, known = common.settings(), role_of(role)
    place, lifetime_s = settings.workspace, days * 86_400
    try:
        made, expires = sign_token(settings, user=user, role=known, workspaces=[place], lifetime_s=lifetime_s)
    except (SettingsError, ValueError) as exc:
        fail(str(exc), code=EXIT_USAGE)
    if common.as_json:
        render.json({"token": made, "user": user, "role": role, "workspaces": [place], "expires": expires})
        return
    typer.echo(made)  # on one line, however narrow the terminal is
    render.note(
        f"For {user}, {role} in workspace {place}, until {local_time(expires * 1000)}. Paste it where the"
        " page asks for a token, or send it as `Authorization: Bearer TOKEN`. Whoever has it is taken for"
        f" {user}; only another NODIUS_AUTH_SECRET ends it sooner, and all others with it."
    )
