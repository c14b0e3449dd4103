"""REST of the settings, for admins: what is set here, never a secret, and a key tried before it is set."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import orjson
from fastapi import APIRouter, Request
from pydantic import Field, SecretStr, StringConstraints

from graphrag.app.agent_services import rules_of
from graphrag.app.model_trial import ModelCandidate, try_model
from graphrag.config import Settings, setting_variables
from graphrag.llm.registry import ENTRIES
from server.auth import Caller
from server.openapi_errors import ERRORS, MODEL_ERRORS
from server.requests import AnswerBody, InLanguage, RequestBody, state_of

router = APIRouter(prefix="/api/settings", tags=["settings"], responses=ERRORS)

LOOPBACK = ("localhost", "127.0.0.1", "::1")
GROUPS: dict[str, tuple[str, ...]] = {
    "model": ("provider", "model", "llm_base_url", "llm_api_key", "llm_context_window", "llm_max_tokens"),
    "embeddings": ("embeddings", "embeddings_model", "embeddings_base_url", "embeddings_api_key"),
    "limits": (
        *("rate_limit", "max_body_bytes", "max_call_tokens", "max_total_tokens", "max_total_cost"),
        *("max_workspace_tokens", "max_workspace_cost", "max_person_tokens", "max_person_cost"),
        *("automations_at_once", "voice_max_calls"),
    ),
    "decisions": ("deciders", "require_validation", "agent_http_allow", "agent_http_only"),
    "notices": ("notify_url", "notify_secret"),
    "sign_in": (
        *("auth_secret", "auth_public_key", "auth_jwks", "auth_issuer", "auth_audience", "oidc_issuer"),
        *("oidc_client_id", "oidc_client_secret", "oidc_scopes", "oidc_roles", "oidc_workspaces"),
    ),
    "storage": ("db", "workspace", "language"),
}
WITHHELD = frozenset(("db", "auth_public_key", "auth_jwks"))
"""May hold a password, a path or much text: only whether they are set is shown."""

State = Literal["set", "default", "unset"]
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")]


class SettingRow(AnswerBody):
    """`value` None: not shown, or there is none; `state` says which."""

    variable: str
    value: str | None = None
    state: State


class SettingGroup(AnswerBody):
    name: str
    settings: list[SettingRow]


class KnownProvider(AnswerBody):
    """`model` None: one has to be named; `address` false: so has an address."""

    name: str
    model: str | None
    key_variable: str | None
    address: bool
    has_key: bool


class SettingsView(AnswerBody):
    """`provider`, `model` and `embedder`: what works here now, whatever was left to choose."""

    provider: str
    model: str
    embedder: str | None
    groups: list[SettingGroup]
    providers: list[KnownProvider]


@router.get("")
async def configured(request: Request, caller: Caller) -> SettingsView:
    """Return what is configured. Of secrets it says only whether they are set. For admins."""
    caller.require("admin")
    state = state_of(request)
    settings, embedder = state.settings, state.shared.embedder
    variables = setting_variables()
    return SettingsView(
        provider=state.model.name,
        model=state.model.model,
        embedder=embedder.model if embedder else None,
        groups=[
            SettingGroup(name=group, settings=[_row(settings, name, variables[name]) for name in names])
            for group, names in GROUPS.items()
        ],
        providers=[
            KnownProvider(
                name=entry.name,
                model=entry.model,
                key_variable=entry.key_variable,
                address=entry.base_url is not None,
                has_key=entry.key_variable is not None and settings.key_of(entry.key_variable) is not None,
            )
            for entry in ENTRIES.values()
            if entry.kind != "offline"
        ],
    )


def _row(settings: Settings, name: str, variable: str) -> SettingRow:
    value: Any = getattr(settings, name)
    if value is None or value in ((), {}):
        return SettingRow(variable=variable, state="unset")
    state: State = "set" if name in settings.model_fields_set else "default"
    if isinstance(value, SecretStr) or name in WITHHELD:
        return SettingRow(variable=variable, state=state)
    return SettingRow(variable=variable, value=_shown(value), state=state)


def _shown(value: Any) -> str:
    """Return a value as it is set; of an address only where it leads: the rest may be a secret."""
    if isinstance(value, tuple):
        return ", ".join(cast(tuple[str, ...], value))
    if isinstance(value, dict):
        return orjson.dumps(value).decode()
    text = str(value)
    if "://" not in text:
        return text
    parts = urlsplit(text)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class SettingsTrial(RequestBody):
    """What is to be tried. Without `baseUrl` and `key`: as it is configured here."""

    provider: Line
    model: Line | None = None
    base_url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]+$", max_length=500)] | None = None
    key: Annotated[SecretStr, Field(min_length=1, max_length=1_000)] | None = None


class TrialResult(AnswerBody):
    """`detail`: the model's answer, or what is wrong; `line`: what to set, with the key left out."""

    ok: bool
    detail: str
    line: str
    latency_ms: int | None


@router.post("/test", responses=MODEL_ERRORS)
async def tried(request: Request, caller: Caller, body: SettingsTrial, language: InLanguage) -> TrialResult:
    """Ask a model one short question with a key. Nothing is stored, and the key is shown nowhere. For admins.

    An address must be public, or one that agents may reach as well (`NODIUS_AGENT_HTTP_ALLOW`); where no
    sign-in is configured, also one of this computer.
    """
    caller.require("admin")
    state = state_of(request)
    state.trials.spend(caller.user_id)
    rules = rules_of(state.settings)
    if not state.authenticator.is_configured:
        rules = replace(rules, allow=(*rules.allow, *LOOPBACK))
    candidate = ModelCandidate(provider=body.provider, model=body.model, base_url=body.base_url, key=body.key)
    return TrialResult.model_validate(await try_model(state.settings, candidate, rules, language))
