"""REST for admins: the settings, never a secret; keys of programs; webhooks."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import orjson
from fastapi import APIRouter, Request
from pydantic import Field, SecretStr, StringConstraints

from graphrag.app.access_tokens import MAX_NAME
from graphrag.app.api_keys import KEY_DAYS, PROPOSING, ApiKey, ApiKeys
from graphrag.app.model_trial import ModelCandidate, TrialResult, try_model
from graphrag.app.service_settings import page_rules
from graphrag.config import Settings, setting_variables
from graphrag.delivery_queue import DeliveryStatus
from graphrag.llm.registry import ENTRIES
from graphrag.roles import Channel
from server.auth import Caller
from server.bodies import AnswerBody, Id, RequestBody
from server.error_schemas import ERRORS, MODEL_ERRORS
from server.errors import KeyNotFound, KeyNotMade
from server.requests import ADMINS, EXCLUDE_NONE, InLanguage, Limit, state_of
from tools.base import Role

router = APIRouter(prefix="/api", tags=["settings"], responses=ERRORS, **ADMINS)

GROUPS: dict[str, tuple[str, ...]] = {
    "model": (
        "provider",
        "model",
        "llm_base_url",
        "llm_api_key",
        "llm_context_window",
        "llm_max_tokens",
    ),
    "embeddings": (
        "embeddings",
        "embeddings_model",
        "embeddings_base_url",
        "embeddings_api_key",
        "embeddings_price",
    ),
    "limits": (
        *("rate_limit", "max_body_bytes", "max_call_tokens", "max_total_tokens", "max_total_cost"),
        *("max_workspace_tokens", "max_workspace_cost", "max_person_tokens", "max_person_cost"),
        *("automations_at_once", "voice_max_calls"),
    ),
    "decisions": ("deciders", "require_validation", "agent_http_allow", "agent_http_only"),
    "notices": (
        *("notify_url", "notify_secret", "notify_secret_before"),
        *("notify_digest_at", "notify_mail_to", "notify_mail_from", "notify_smtp_url"),
    ),
    "sign_in": (
        *(
            "auth_secret",
            "auth_public_key",
            "auth_jwks",
            "auth_issuer",
            "auth_audience",
            "oidc_issuer",
        ),
        *("oidc_client_id", "oidc_client_secret", "oidc_scopes", "oidc_roles", "oidc_workspaces"),
    ),
    "storage": ("db", "workspace", "language"),
}
# May contain a password, a path or long text: only whether they are set is shown.
WITHHELD = frozenset(("db", "auth_public_key", "auth_jwks"))

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
    """`provider`, `model` and `embedder`: those in use, whether chosen or by default."""

    provider: str
    model: str
    embedder: str | None
    groups: list[SettingGroup]
    providers: list[KnownProvider]


@router.get("/settings")
async def configured(request: Request) -> SettingsView:
    """Returns the settings. For secrets it returns only whether they are set. For admins."""
    state = state_of(request)
    settings = state.settings
    embedder = state.backend.shared.embedder
    variables = setting_variables()
    return SettingsView(
        provider=state.backend.model.name,
        model=state.backend.model.model,
        embedder=embedder.model if embedder else None,
        groups=[
            SettingGroup(
                name=group, settings=[_row(settings, name, variables[name]) for name in names]
            )
            for group, names in GROUPS.items()
        ],
        providers=[
            KnownProvider(
                name=entry.name,
                model=entry.model,
                key_variable=entry.key_variable,
                address=entry.base_url is not None,
                has_key=entry.key_variable is not None
                and settings.key_of(entry.key_variable) is not None,
            )
            for entry in ENTRIES.values()
            if entry.kind != "offline"
        ],
    )


def _row(settings: Settings, name: str, variable: str) -> SettingRow:
    value: Any = settings.value_of(name)
    if value is None or value in ((), {}):
        return SettingRow(variable=variable, state="unset")
    state: State = "set" if settings.is_set(name) else "default"
    if isinstance(value, SecretStr) or name in WITHHELD:
        return SettingRow(variable=variable, state=state)
    return SettingRow(variable=variable, value=_shown(value), state=state)


def _shown(value: Any) -> str:
    """Returns a value as text; of an address only scheme and host, as the rest may be secret."""
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
    """The model to try. Without `baseUrl` and `key`: as it is configured."""

    provider: Line
    model: Line | None = None
    base_url: Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]+$", max_length=500)] | None = (
        None
    )
    key: Annotated[SecretStr, Field(min_length=1, max_length=1_000)] | None = None


@router.post("/settings/test", responses=MODEL_ERRORS)
async def tried(
    request: Request, caller: Caller, body: SettingsTrial, language: InLanguage
) -> TrialResult:
    """Asks a model one short question with a key. Stores nothing, and never shows the key. For
    admins.

    An address must be public, or one that agents may reach (`NODIUS_AGENT_HTTP_ALLOW`); without
    configured sign-in also one of this computer.
    """
    state = state_of(request)
    state.limits.key_trials.spend(caller.user_id)
    rules = page_rules(state.settings)
    candidate = ModelCandidate(
        provider=body.provider, model=body.model, base_url=body.base_url, key=body.key
    )
    return await try_model(state.settings, candidate, rules, language)


NameLine = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00-\x1f\x7f]+$")
]


class KeyList(AnswerBody):
    keys: list[ApiKey]


class KeyMade(ApiKey):
    """A new key; `key` is shown only once."""

    key: str


class KeyRequest(RequestBody):
    """A key for the caller, or for another person with no more rights than the caller. With the
    default `channels` a program reads and proposes; with [] it may do all that its person may.
    """

    name: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    user: NameLine | None = None
    role: Role = "editor"
    workspaces: Annotated[list[NameLine], Field(min_length=1, max_length=100)] | None = None
    channels: Annotated[list[Channel], Field(max_length=9)] = Field(
        default_factory=lambda: list(PROPOSING)
    )
    days: Annotated[float, Field(gt=0, le=KEY_DAYS)] = 90.0


def _keys(request: Request) -> ApiKeys:
    keys = state_of(request).authentication.api_keys
    assert keys is not None, "the server is started"
    return keys


@router.get("/keys", **EXCLUDE_NONE)
async def listed(request: Request, caller: Caller) -> KeyList:
    """Lists the keys of the caller's workspaces, newest first, also revoked ones."""
    theirs = set(caller.workspaces)
    found = [key for key in await _keys(request).list() if set(key.workspaces) <= theirs]
    return KeyList(keys=found)


@router.post("/keys", **EXCLUDE_NONE)
async def make(request: Request, caller: Caller, body: KeyRequest) -> KeyMade:
    """Creates a key. Its text is only in this answer."""
    workspaces = body.workspaces or list(caller.workspaces)
    if not set(workspaces) <= set(caller.workspaces):
        raise KeyNotMade
    try:
        key, text = await _keys(request).create(
            user=body.user or caller.user_id,
            role=body.role,
            workspaces=workspaces,
            name=body.name,
            channels=body.channels,
            days=body.days,
        )
    except ValueError:
        raise KeyNotMade from None
    return KeyMade(**dict(key), key=text)


@router.delete("/keys/{key_id}", **EXCLUDE_NONE)
async def revoke(request: Request, caller: Caller, key_id: Id) -> ApiKey:
    """Revokes a key. Within seconds no server accepts it any more."""
    key = await _keys(request).revoke(key_id, workspaces=caller.workspaces)
    if key is None:
        raise KeyNotFound
    return key


class WebhookDocument(AnswerBody):
    """One request. Units: times in milliseconds since 1970; `nextTime`: when it is
    tried or removed.
    """

    id: str
    event: str
    workspace: str
    status: DeliveryStatus
    attempts: int
    created_time: int
    next_time: int
    http_status: int | None = None
    error: str | None = None
    body: dict[str, Any]


class WebhookList(AnswerBody):
    """`enabled`: there is an address (NODIUS_NOTIFY_URL)."""

    enabled: bool
    webhooks: list[WebhookDocument]


@router.get("/webhooks", **EXCLUDE_NONE)
async def webhooks(request: Request, caller: Caller, limit: Limit = 100) -> WebhookList:
    """Lists the sent and waiting requests of the caller's workspaces, the latest first."""
    hooks = state_of(request).monitoring.webhooks
    requests = await hooks.stored(caller.workspaces, limit=limit)
    shown = [WebhookDocument.model_validate(one) for one in requests]
    return WebhookList(enabled=hooks.is_enabled, webhooks=shown)


class WebhooksRetried(AnswerBody):
    """`count`: how many are tried again."""

    count: int


@router.post("/webhooks/retry")
async def retry_all(request: Request, caller: Caller) -> WebhooksRetried:
    """Retries at once all requests that did not arrive: refused ones, those given up, and those
    that wait.
    """
    return WebhooksRetried(
        count=await state_of(request).monitoring.webhooks.retry_all(caller.workspaces)
    )


@router.post("/webhooks/{webhook_id}/retry", **EXCLUDE_NONE)
async def retry(request: Request, caller: Caller, webhook_id: Id) -> WebhookDocument:
    """Retries at once one request that was refused, given up or waits."""
    retried = await state_of(request).monitoring.webhooks.retry(webhook_id, caller.workspaces)
    return WebhookDocument.model_validate(retried)
