"""REST of the administration: settings that the page may change, findings, and backups."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from pydantic import Field, SecretStr

from graphrag.app.diagnostics import examine
from graphrag.app.service_settings import (
    ADJUSTABLE,
    AT_ONCE,
    KEYS,
    ServiceSettings,
    StoredSettings,
)
from graphrag.config import Settings, setting_variables
from server.auth import Caller, Identity
from server.bodies import AnswerBody, RequestBody
from server.error_schemas import ERRORS
from server.errors import BackupNotFound, OperatorNeeded
from server.requests import ADMINS, EXCLUDE_NONE, InLanguage, state_of
from server.server_backup import BackupState
from server.server_state import ServerState

router = APIRouter(
    prefix="/api/administration", tags=["administration"], responses=ERRORS, **ADMINS
)

Source = Literal["environment", "page", "default"]


class AdjustableSetting(AnswerBody):
    """`value` None: it is a key, or there is none. `source` environment: also the command line or
    nodius.toml; the page cannot change it. `waits`: it takes effect when the server starts again.
    """

    name: str
    variable: str
    value: str | None = None
    source: Source
    is_key: bool
    is_set: bool
    at_once: bool
    waits: bool


class AdministrationView(AnswerBody):
    """`may_keep_keys`: there is a secret to encrypt keys with. `roles`: those that the identity
    provider's groups give, as NODIUS_OIDC_ROLES.
    """

    provider: str
    model: str
    embedder: str | None = None
    may_keep_keys: bool
    has_sign_in: bool
    roles: dict[str, dict[str, str]]
    settings: list[AdjustableSetting]


class SettingChanges(RequestBody):
    """Values by name; null takes one back, so that the default counts again."""

    changes: Annotated[
        dict[str, Annotated[str, Field(max_length=2_000)] | float | None],
        Field(min_length=1, max_length=len(ADJUSTABLE)),
    ]


class FoundLine(AnswerBody):
    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    fix: str | None = None


class FindingList(AnswerBody):
    findings: list[FoundLine]


def _state(request: Request, caller: Identity) -> ServerState:
    """Returns the server's state. Raises: OperatorNeeded for an admin of other workspaces only."""
    state = state_of(request)
    if state.settings.workspace not in caller.workspaces:
        raise OperatorNeeded(workspace=state.settings.workspace)
    return state


@router.get("/settings", **EXCLUDE_NONE)
async def adjustable(request: Request, caller: Caller) -> AdministrationView:
    """Returns the settings that the page may change, never a key. For admins of the service."""
    state = _state(request, caller)
    return _view(state, await state.backend.service_settings.stored())


@router.put("/settings", **EXCLUDE_NONE)
async def change(
    request: Request, caller: Caller, body: SettingChanges, language: InLanguage
) -> AdministrationView:
    """Sets or takes back settings; keys are encrypted and never shown again. For admins of the
    service.
    """
    state = _state(request, caller)
    workspace = state.settings.workspace
    changes: dict[str, Any] = {
        name: SecretStr(value) if name in KEYS and isinstance(value, str) else value
        for name, value in body.changes.items()
    }
    services = await state.services(workspace)
    stored = await state.backend.service_settings.change(
        changes, caller.person(workspace), services.approvals, language
    )
    return _view(state, stored)


@router.get("/findings", **EXCLUDE_NONE)
async def findings(request: Request, caller: Caller) -> FindingList:
    """Checks the installation, as `nodius doctor` does. For admins of the service."""
    state = _state(request, caller)
    stored = await state.backend.service_settings.stored()
    found = await examine(state.backend.service_settings.effective(stored))
    lines = [
        FoundLine(name=one.name, status=one.status, detail=one.detail, fix=one.fix or None)
        for one in found
    ]
    return FindingList(findings=lines)


@router.post("/backup", status_code=202, **EXCLUDE_NONE)
async def back_up(request: Request, caller: Caller) -> BackupState:
    """Begins to copy the database of all workspaces while it is used. For admins of the service."""
    return _state(request, caller).backend.backup.begin()


@router.get("/backup", **EXCLUDE_NONE)
async def backup_state(request: Request, caller: Caller) -> BackupState:
    """Returns how far the latest backup is. For admins of the service."""
    return _state(request, caller).backend.backup.state


@router.get("/backup/file", include_in_schema=False)
async def backup_file(request: Request, caller: Caller) -> Response:
    """Returns the latest finished copy, a database file. For admins of the service."""
    path = _state(request, caller).backend.backup.file
    if path is None:
        raise BackupNotFound
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")


def _view(state: ServerState, stored: StoredSettings) -> AdministrationView:
    own = state.backend.service_settings
    effective = own.effective(stored)
    waiting = own.waits_for_start(stored)
    embedder = state.backend.shared.embedder
    model = state.backend.model
    variables = setting_variables()
    return AdministrationView(
        provider=model.name,
        model=model.model,
        embedder=embedder.model if embedder else None,
        may_keep_keys=state.settings.auth.secret is not None,
        has_sign_in=state.authentication.authenticator.is_configured,
        roles={claim: dict(names) for claim, names in state.settings.oidc.roles.items()},
        settings=[
            _row(own, effective, stored, name, variables[name], waits=name in waiting)
            for name in ADJUSTABLE
        ],
    )


def _row(
    own: ServiceSettings,
    effective: Settings,
    stored: StoredSettings,
    name: str,
    variable: str,
    *,
    waits: bool,
) -> AdjustableSetting:
    source: Source = "default"
    if own.is_fixed(name):
        source = "environment"
    elif name in stored.values:
        source = "page"
    value = effective.value_of(name)
    hides = name in KEYS or value is None or (source == "environment" and "://" in str(value))
    return AdjustableSetting(
        name=name,
        variable=variable,
        value=None if hides else str(value),
        source=source,
        is_key=name in KEYS,
        is_set=value is not None,
        at_once=name in AT_ONCE,
        waits=waits,
    )
