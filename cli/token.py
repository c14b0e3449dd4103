"""The `token` command: makes signed tokens and keys to sign in with, and lists and revokes keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from cli import render
from cli.command import command
from cli.common import EXIT_NOTHING, fail, local_time, run, usage_error
from cli.options import Common, OptionGroup, flag, option
from cli.output import Output
from datasources.types import ROOT_WORKSPACE
from graphrag.app.access_tokens import MAX_DAYS, sign_token
from graphrag.app.api_keys import PROPOSING, ApiKey, ApiKeys
from graphrag.app.wiring import LOCAL_USER, Services
from graphrag.config import Settings, SettingsError
from tools.base import Role

DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner(OptionGroup):
    """The person who signs in with a token or key, and its lifetime."""

    user: Annotated[
        str, option("--user", "NAME", "The user; changes are recorded under this name.")
    ] = LOCAL_USER
    role: Annotated[Role, option("--role", "ROLE", "viewer, editor, reviewer or admin.")] = "editor"
    days: Annotated[
        float, option("--days", "N", f"Lifetime in days, at most {MAX_DAYS}; 0.5: 12 hours.")
    ] = 30.0


@command()
def token(
    common: Common,
    owner: Owner,
    api_key: Annotated[
        bool, flag("--api-key", "Make a key for a program, which can be revoked.")
    ] = False,
    name: Annotated[str, option("--name", "TEXT", "The purpose of the key.")] = "",
    channel: Annotated[
        list[str] | None,
        option("--channel", "NAME", "Channel of the key: api, …, or all (default: mcp, openai)."),
    ] = None,
    list_keys: Annotated[bool, flag("--list", "List the keys.")] = False,
    revoke: Annotated[str | None, option("--revoke", "ID", "Revoke a key.")] = None,
) -> Output:
    """Print a token to sign in with (signed with NODIUS_AUTH_SECRET), or a key for a program."""
    if list_keys + api_key + (revoke is not None) > 1:
        usage_error("give one of --api-key, --list and --revoke")
    settings = common.settings()
    if list_keys:
        return _list(settings)
    if revoke is not None:
        return _revoke(settings, revoke)
    if api_key:
        return _make_key(settings, owner, name, channel)
    if name or channel:
        usage_error("--name and --channel are for --api-key")
    return _make_token(settings, owner)


def _make_key(settings: Settings, owner: Owner, name: str, channel: list[str] | None) -> Output:
    channels = PROPOSING if not channel else () if channel == ["all"] else tuple(channel)

    async def make(services: Services) -> tuple[ApiKey, str]:
        return await _keys(services).create(
            user=owner.user,
            role=owner.role,
            workspaces=[settings.workspace],
            name=name,
            channels=channels,
            days=owner.days,
        )

    try:
        key, text = run(settings, make, creates=True)
    except ValueError as exc:
        usage_error(str(exc))
    end = f"`nodius token --revoke {key.id}` ends it sooner."
    return Output(
        document={**key.model_dump(), "key": text},
        text=partial(_show, text, key.expires, owner, settings.workspace, end),
    )


def _make_token(settings: Settings, owner: Owner) -> Output:
    workspaces = [settings.workspace]
    try:
        text, expires = sign_token(
            settings,
            user=owner.user,
            role=owner.role,
            workspaces=workspaces,
            lifetime_s=owner.days * DAY_S,
        )
    except (SettingsError, ValueError) as exc:
        usage_error(str(exc))
    end = "only another NODIUS_AUTH_SECRET ends it sooner, and all others with it."
    return Output(
        document={
            "token": text,
            "user": owner.user,
            "role": owner.role,
            "workspaces": workspaces,
            "expires": expires,
        },
        text=partial(_show, text, expires * 1000, owner, settings.workspace, end),
    )


def _show(text: str, expires_ms: int, owner: Owner, workspace: str, end: str) -> None:
    typer.echo(text)  # on one line, whatever the width of the terminal
    render.note(
        f"For {owner.user}, {owner.role} in workspace {workspace}, until {local_time(expires_ms)}."
        " Paste it where the page asks for a token, or send it as `Authorization: Bearer TOKEN`."
        f" It signs in as {owner.user}; {end}"
    )


def _keys(services: Services) -> ApiKeys:
    return ApiKeys(services.database.records(ROOT_WORKSPACE))


def _list(settings: Settings) -> Output:
    keys = run(settings, lambda services: _keys(services).list())
    columns = ["id", "name", "user", "role", "workspaces", "until", "last used", "state"]
    rows = [_row(key) for key in keys]
    return Output(
        document=[key.model_dump() for key in keys],
        text=partial(render.table, columns, rows)
        if rows
        else "There is no key. `nodius token --api-key` makes one.",
    )


def _row(key: ApiKey) -> list[str]:
    return [
        key.id,
        key.name or "-",
        key.user,
        key.role,
        ", ".join(key.workspaces),
        local_time(key.expires),
        "-" if key.used is None else local_time(key.used),
        "revoked" if key.revoked is not None else ", ".join(key.channels) or "all channels",
    ]


def _revoke(settings: Settings, key_id: str) -> Output:
    key = run(settings, lambda services: _keys(services).revoke(key_id))
    if key is None:
        fail(f"there is no key {key_id}", code=EXIT_NOTHING)
    document = key.model_dump()
    return Output(
        document=document, text=f"{key.id} is revoked: within seconds no server accepts it."
    )
