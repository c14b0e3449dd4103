"""The `token` command: prints a signed token or a key for somebody or a program that
is to sign in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from cli import render
from cli.common import EXIT_NOTHING, fail, local_time, run, usage_error
from cli.options import Common, OptionGroup, command, flag, option
from datasources.types import ROOT_WORKSPACE
from graphrag.app.access_tokens import MAX_DAYS, sign_token
from graphrag.app.api_keys import PROPOSING, ApiKey, ApiKeys
from graphrag.app.wiring import LOCAL_USER, Services
from graphrag.config import SettingsError
from tools.base import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(OptionGroup):
    """For whom, and for how long."""

    user: Annotated[
        str, option("--user", "NAME", "Who signs in with it; changes will bear this name.")
    ] = LOCAL_USER
    role: Annotated[Role, option("--role", "ROLE", "viewer, editor, reviewer or admin.")] = "editor"
    days: Annotated[
        float, option("--days", "N", f"For how long, at most {MAX_DAYS}; 0.5: 12 hours.")
    ] = 30.0


@command()
def token(
    common: Common,
    owner: Owner,
    api_key: Annotated[
        bool, flag("--api-key", "A key for a program, which can be revoked.")
    ] = False,
    name: Annotated[str, option("--name", "TEXT", "What the key is for.")] = "",
    channel: Annotated[
        list[str] | None,
        option("--channel", "NAME", "Good for this: api, …, or all; else mcp, openai."),
    ] = None,
    list_keys: Annotated[bool, flag("--list", "List the keys.")] = False,
    revoke: Annotated[str | None, option("--revoke", "ID", "Revoke a key.")] = None,
) -> None:
    """Print a token with which somebody signs in (signed with NODIUS_AUTH_SECRET), or a key
    for a program.
    """
    if list_keys + api_key + (revoke is not None) > 1:
        usage_error("give one of --api-key, --list and --revoke")
    if list_keys:
        _list(common)
    elif revoke is not None:
        _revoke(common, revoke)
    elif api_key:
        _make_key(common, owner, name, channel)
    elif name or channel:
        usage_error("--name and --channel are for --api-key")
    else:
        _make_token(common, owner)


def _make_key(common: Common, owner: Owner, name: str, channel: list[str] | None) -> None:
    settings = common.settings()
    named = PROPOSING if not channel else () if channel == ["all"] else tuple(channel)

    async def make(services: Services) -> tuple[ApiKey, str]:
        return await _keys(services).create(
            user=owner.user,
            role=owner.role,
            workspaces=[settings.workspace],
            name=name,
            channels=named,
            days=owner.days,
        )

    try:
        key, text = run(settings, make, creates=True)
    except ValueError as exc:
        usage_error(str(exc))
    end = f"`nodius token --revoke {key.id}` ends it sooner."
    _print(common, text, {**key.model_dump(), "key": text}, key.expires, owner, end)


def _make_token(common: Common, owner: Owner) -> None:
    settings = common.settings()
    places = [settings.workspace]
    try:
        made, expires = sign_token(
            settings,
            user=owner.user,
            role=owner.role,
            workspaces=places,
            lifetime_s=owner.days * 86_400,
        )
    except (SettingsError, ValueError) as exc:
        usage_error(str(exc))
    end = "only another NODIUS_AUTH_SECRET ends it sooner, and all others with it."
    document = {
        "token": made,
        "user": owner.user,
        "role": owner.role,
        "workspaces": places,
        "expires": expires,
    }
    _print(common, made, document, expires * 1000, owner, end)


def _print(
    common: Common, made: str, document: object, expires: int, owner: Owner, end: str
) -> None:
    if common.as_json:
        render.json(document)
        return
    typer.echo(made)  # on one line, however narrow the terminal is
    render.note(
        f"For {owner.user}, {owner.role} in workspace {common.settings().workspace}, until"
        f" {local_time(expires)}. Paste it where the page asks for a token, or send it as `Authorization:"
        f" Bearer TOKEN`. It signs in as {owner.user}; {end}"
    )


def _keys(services: Services) -> ApiKeys:
    return ApiKeys(services.database.records(ROOT_WORKSPACE))


def _list(common: Common) -> None:
    found = run(common.settings(), lambda services: _keys(services).list())
    if common.as_json:
        render.json([key.model_dump() for key in found])
        return
    if not found:
        typer.echo("There is no key. `nodius token --api-key` makes one.")
        return
    columns = ["id", "name", "user", "role", "workspaces", "until", "last used", "state"]
    render.table(columns, [_row(key) for key in found])


def _row(key: ApiKey) -> list[str]:
    used = "-" if key.used is None else local_time(key.used)
    state = "revoked" if key.revoked is not None else ", ".join(key.channels) or "all channels"
    of = [key.id, key.name or "-", key.user, key.role, ", ".join(key.workspaces)]
    return [*of, local_time(key.expires), used, state]


def _revoke(common: Common, key_id: str) -> None:
    key = run(common.settings(), lambda services: _keys(services).revoke(key_id))
    if key is None:
        fail(f"there is no key {key_id}", code=EXIT_NOTHING)
    common.say(key.model_dump(), f"{key.id} is revoked: within seconds no server takes it.")
