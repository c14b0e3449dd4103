"""Groups of settings: the settings of one thing in one object, and their flat names.

Below each setting stands its meaning, which docs/reference.md shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from tools.base import Role


def _parse_json(value: Any) -> Any:
    """Returns the parsed JSON of a text; other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('write it as JSON, as {"groups": {"graph-admins": "admin"}}') from None


def _addresses(value: Any) -> Any:
    """Returns the addresses of a text that separates them by commas; other values unchanged."""
    if not isinstance(value, str):
        return value
    return tuple(one.strip() for one in value.split(",") if one.strip())


RolesByClaim = Annotated[dict[str, dict[str, Role]], BeforeValidator(_parse_json)]
WorkspacesByClaim = Annotated[dict[str, dict[str, str]], BeforeValidator(_parse_json)]

_GROUP = ConfigDict(extra="forbid", frozen=True)


class EmbedderSettings(BaseModel):
    """The embedding model and its server."""

    model_config = _GROUP

    model: str = "text-embedding-3-small"
    """model name for `openai` embeddings"""
    base_url: str | None = None
    """address of an OpenAI-compatible server (default: OpenAI's)"""
    api_key: SecretStr | None = None
    """key of that server (default: OPENAI_API_KEY)"""
    price: float | None = Field(default=None, ge=0)
    """US dollars a million tokens that it embeds, before published prices (a model without one is
    free on a server of this computer, and unpriced elsewhere)
    """


class LlmSettings(BaseModel):
    """The service of the model that answers."""

    model_config = _GROUP

    base_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+")
    """address of an OpenAI-compatible server, or of the provider if it is set by name"""
    api_key: SecretStr | None = None
    """key for the provider in use, before its own variable"""
    context_window: int | None = Field(default=None, ge=1_000)
    """tokens that the model takes, prompt and answer together (default: as published; a local
    server is asked)
    """
    api: Literal["chat", "responses"] = "chat"
    """OpenAI's interface to use: chat (all servers do) or responses"""
    max_tokens: int | None = Field(default=None, ge=1)
    """tokens of an answer at most"""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """sampling temperature"""
    silence_s: float = Field(default=60, gt=0)
    """seconds to wait for the next piece of an answer"""
    first_piece_s: float | None = Field(default=None, gt=0)
    """seconds to wait for an answer's first piece (default: as for the next ones; 900 of a local
    server, which is not asked again then)
    """
    total_s: float = Field(default=300, gt=0)
    """seconds that an answer may take"""
    price_input: float | None = Field(default=None, ge=0)
    """US dollars a million prompt tokens, before published prices"""
    price_output: float | None = Field(default=None, ge=0)
    """the same for answer tokens"""
    price_cached: float | None = Field(default=None, ge=0)
    """the same for prompt tokens that the provider remembered"""


class UsageLimitSettings(BaseModel):
    """Limits of what models may use; each is checked before a call."""

    model_config = _GROUP

    call_tokens: int | None = Field(default=None, ge=1)
    """prompt tokens of one call at most"""
    total_tokens: int | None = Field(default=None, ge=1)
    """tokens of all calls of the service in a calendar month (UTC) at most"""
    total_cost: float | None = Field(default=None, gt=0)
    """US dollars of all calls of the service in a month at most"""
    workspace_tokens: int | None = Field(default=None, ge=1)
    """tokens of a workspace in a month at most"""
    workspace_cost: float | None = Field(default=None, gt=0)
    """US dollars of a workspace in a month at most"""
    person_tokens: int | None = Field(default=None, ge=1)
    """tokens of a person in a month at most, in all workspaces together"""
    person_cost: float | None = Field(default=None, gt=0)
    """US dollars of a person in a month at most"""


class UndoSettings(BaseModel):
    """How long changes can be undone."""

    model_config = _GROUP

    days: int = Field(default=180, ge=1)
    """days for which a change can be undone and the graph of that time be shown"""
    mb: int = Field(default=500, ge=1)
    """megabytes of a workspace that are kept to undo changes; beyond, the oldest go"""


class NotifySettings(BaseModel):
    """Webhooks of the operator."""

    model_config = _GROUP

    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+")
    """gets a request when proposals wait or are decided, automations end, graphs change"""
    secret: SecretStr | None = None
    """key with which these requests are signed; as text, or whsec_ and base64"""
    secret_before: SecretStr | None = None
    """the key before it, with which they are signed too while receivers change to the new one"""
    digest_at: str | None = Field(default=None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    """time of day (`timezone`), such as 07:00, from which what happened in a workspace is sent once
    a day, to `notify_url` and as mail
    """
    mail_to: Annotated[tuple[str, ...], BeforeValidator(_addresses)] = ()
    """addresses that get this mail, separated by commas"""
    mail_from: str | None = Field(default=None, pattern=r"^[^\s@]+@[^\s@]+$")
    """address that it comes from (default: nodius@ and the host of the SMTP server)"""
    smtp_url: SecretStr | None = None
    """server that sends it: smtp://USER:PASSWORD@HOST:587 (encrypted if it offers that) or
    smtps://HOST
    """


class TwilioSettings(BaseModel):
    """The telephone service Twilio."""

    model_config = _GROUP

    auth_token: SecretStr | None = Field(default=None, min_length=1)
    """token with which Twilio signs its requests (default: only this machine may send them)"""
    shared_keys: SecretStr | None = Field(default=None, min_length=3)
    """keys shared with Twilio for SHA-256 signatures: ID=SECRET, separated by commas"""


class VoiceSettings(BaseModel):
    """Telephone calls."""

    model_config = _GROUP

    max_calls: int = Field(default=50, ge=1, le=1000)
    """telephone calls that this server serves at once; one caller may have a fifth of them"""
    drain_s: float = Field(default=120, ge=0, le=3600)
    """seconds that calls may go on once the server is asked to stop; in the last 30 the
    agent says goodbye
    """


class AuthSettings(BaseModel):
    """Tokens that people and programs sign in with."""

    model_config = _GROUP

    secret: SecretStr | None = Field(default=None, min_length=32)
    """secret of HS256 tokens, 32 characters or more"""
    public_key: str | None = Field(default=None, min_length=1)
    """public key of RS256 tokens: PEM, or the path of a PEM file"""
    jwks: str | None = Field(default=None, min_length=1)
    """key set of RS256 tokens: an https address, or a file"""
    issuer: str | None = Field(default=None, min_length=1)
    """tokens must be issued by it (`iss`)"""
    audience: str | None = Field(default=None, min_length=1)
    """tokens must be meant for it (`aud`)"""
    leeway_s: int = Field(default=30, ge=0, le=600)
    """seconds that clocks may differ"""


class OidcSettings(BaseModel):
    """Sign-in at an identity provider."""

    model_config = _GROUP

    issuer: str | None = Field(default=None, pattern=r"^https?://[^\s?#]+$")
    """OpenID Connect provider at which people sign in to the page; needs `auth_secret`, too"""
    client_id: str | None = Field(default=None, min_length=1)
    """client id of this service at that provider"""
    client_secret: SecretStr | None = Field(default=None, min_length=1)
    """its secret (none: a public client)"""
    scopes: str = Field(
        default="openid profile email", pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$"
    )
    """scopes that are asked for; some providers want groups or offline_access besides"""
    roles: RolesByClaim = Field(default_factory=dict[str, dict[str, Role]])
    """who gets which role, as JSON: claim of the ID token, its value (*: any), role; the highest
    counts, and who gets none cannot sign in
    """
    workspaces: WorkspacesByClaim = Field(default_factory=dict[str, dict[str, str]])
    """in the same way, who may work in which workspace (default: all in `workspace`)"""


# Prefix and model of each group. A setting of a group has one flat name in flags, in the
# environment and in nodius.toml: the prefix and its name in the group, as `llm_base_url`.
SETTING_GROUPS: Mapping[str, tuple[str, type[BaseModel]]] = {
    "embedder": ("embeddings_", EmbedderSettings),
    "llm": ("llm_", LlmSettings),
    "usage_limits": ("max_", UsageLimitSettings),
    "undo": ("undo_", UndoSettings),
    "notify": ("notify_", NotifySettings),
    "twilio": ("twilio_", TwilioSettings),
    "voice": ("voice_", VoiceSettings),
    "auth": ("auth_", AuthSettings),
    "oidc": ("oidc_", OidcSettings),
}

_GROUPED: dict[str, tuple[str, str]] = {
    prefix + field: (group, field)
    for group, (prefix, model) in SETTING_GROUPS.items()
    for field in model.model_fields
}


def place_of(name: str) -> tuple[str | None, str]:
    """Returns the group of the setting with this flat name, and its name there. The group is None
    for a setting without one.
    """
    return _GROUPED.get(name, (None, name))


def flat_name(group: str, field: str) -> str:
    """Returns the flat name of a setting of a group."""
    return SETTING_GROUPS[group][0] + field


def in_groups(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values with those of flat names moved into their groups. A flat name wins over
    the same setting in a table.
    """
    grouped = {name: value for name, value in values.items() if place_of(name)[0] is None}
    for name, value in values.items():
        group, field = place_of(name)
        if group is not None:
            grouped[group] = {**grouped.get(group, {}), field: value}
    return grouped
