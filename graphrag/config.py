"""Settings, resolved once: flag > environment > file > default. Nothing else
reads the environment.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from languages import Language
from tools.actions.base import ActionClass
from tools.base import Role
from tools.time_zones import TimeZone

PREFIX = "NODIUS_"
SECRET_PREFIX = "NODIUS_SECRET_"
CONFIG_FILE = "nodius.toml"


def _names(value: Any) -> Any:
    """Return names that are separated by commas as a list."""
    return (
        [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, str)
        else value
    )


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]


def _table(value: Any) -> Any:
    """Return what JSON says, and anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('write it as JSON, as {"groups": {"graph-admins": "admin"}}') from None


RolesByClaim = Annotated[dict[str, dict[str, Role]], NoDecode, BeforeValidator(_table)]
WorkspacesByClaim = Annotated[dict[str, dict[str, str]], NoDecode, BeforeValidator(_table)]


class SettingsError(Exception):
    """A setting cannot be used; the text names it, where it came from and what is allowed."""

    def __init__(self, *, name: str, origin: str, reason: str) -> None:
        self.name = name
        self.origin = origin
        self.reason = reason
        super().__init__(f"setting {name!r} ({origin}): {reason}")


_GROUP = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class EmbedderSettings(BaseModel):
    """The embedding model and its server."""

    model_config = _GROUP

    model: str = Field(
        "text-embedding-3-small",
        validation_alias=AliasChoices("model", "NODIUS_EMBEDDINGS_MODEL", "EMBEDDING_MODEL"),
    )
    """model name for `openai` embeddings"""
    base_url: str | None = Field(
        None,
        validation_alias=AliasChoices("base_url", "NODIUS_EMBEDDINGS_BASE_URL", "OPENAI_BASE_URL"),
    )
    """address of an OpenAI-compatible server (default: OpenAI's)"""
    api_key: SecretStr | None = None
    """key of that server (default: OPENAI_API_KEY)"""
    price: float | None = Field(None, ge=0)
    """US dollars a million tokens that it embeds, before published prices (a model without one is
    free on a server of this computer, and unpriced elsewhere)
    """


class LlmSettings(BaseModel):
    """The service of the model that answers."""

    model_config = _GROUP

    base_url: str | None = Field(None, pattern=r"^https?://[^\s/]+")
    """address of an OpenAI-compatible server, or of the provider if it is set by name"""
    api_key: SecretStr | None = None
    """key for the provider in use, before its own variable"""
    context_window: int | None = Field(None, ge=1_000)
    """tokens that the model takes, prompt and answer together (default: as published; a local
    server is asked)
    """
    api: Literal["chat", "responses"] = "chat"
    """OpenAI's interface to use: chat (all servers do) or responses"""
    max_tokens: int | None = Field(None, ge=1)
    """tokens of an answer at most"""
    temperature: float | None = Field(None, ge=0, le=2)
    """sampling temperature"""
    silence_s: float = Field(60, gt=0)
    """seconds to wait for the next piece of an answer"""
    first_piece_s: float | None = Field(None, gt=0)
    """seconds to wait for an answer's first piece (default: as for the next ones; 900 of a local
    server, which is not asked again then)
    """
    total_s: float = Field(300, gt=0)
    """seconds that an answer may take"""
    price_input: float | None = Field(None, ge=0)
    """US dollars a million prompt tokens, before published prices"""
    price_output: float | None = Field(None, ge=0)
    """the same for answer tokens"""
    price_cached: float | None = Field(None, ge=0)
    """the same for prompt tokens that the provider remembered"""


class UsageLimitSettings(BaseModel):
    """Limits of what models may use; each is checked before a call."""

    model_config = _GROUP

    call_tokens: int | None = Field(None, ge=1)
    """prompt tokens of one call at most"""
    total_tokens: int | None = Field(None, ge=1)
    """tokens of all calls of the service in a calendar month (UTC) at most"""
    total_cost: float | None = Field(None, gt=0)
    """US dollars of all calls of the service in a month at most"""
    workspace_tokens: int | None = Field(None, ge=1)
    """tokens of a workspace in a month at most"""
    workspace_cost: float | None = Field(None, gt=0)
    """US dollars of a workspace in a month at most"""
    person_tokens: int | None = Field(None, ge=1)
    """tokens of a person in a month at most, in all workspaces together"""
    person_cost: float | None = Field(None, gt=0)
    """US dollars of a person in a month at most"""


class UndoSettings(BaseModel):
    """How long changes can be undone."""

    model_config = _GROUP

    days: int = Field(180, ge=1)
    """days for which a change can be undone and the graph of that time be shown"""
    mb: int = Field(500, ge=1)
    """megabytes of a workspace that are kept to undo changes; beyond, the oldest go"""


class NotifySettings(BaseModel):
    """Webhooks of the operator."""

    model_config = _GROUP

    url: str | None = Field(None, pattern=r"^https?://[^\s/]+")
    """gets a request when proposals wait or are decided, automations end, graphs change"""
    secret: SecretStr | None = None
    """key with which these requests are signed; as text, or whsec_ and base64"""
    secret_before: SecretStr | None = None
    """the key before it, with which they are signed too while receivers change to the new one"""


class TwilioSettings(BaseModel):
    """The telephone service Twilio."""

    model_config = _GROUP

    auth_token: SecretStr | None = Field(None, min_length=1)
    """token with which Twilio signs its requests (default: only this machine may send them)"""
    shared_keys: SecretStr | None = Field(None, min_length=3)
    """keys shared with Twilio for SHA-256 signatures: ID=SECRET, separated by commas"""


class VoiceSettings(BaseModel):
    """Telephone calls."""

    model_config = _GROUP

    max_calls: int = Field(50, ge=1, le=1000)
    """telephone calls that this server serves at once; one caller may have a fifth of them"""
    drain_s: float = Field(120, ge=0, le=3600)
    """seconds that calls may go on once the server is asked to stop; in the last 30 the
    agent says goodbye
    """


class AuthSettings(BaseModel):
    """Tokens that people and programs sign in with."""

    model_config = _GROUP

    secret: SecretStr | None = Field(None, min_length=32)
    """secret of HS256 tokens, 32 characters or more"""
    public_key: str | None = Field(None, min_length=1)
    """public key of RS256 tokens: PEM, or the path of a PEM file"""
    jwks: str | None = Field(None, min_length=1)
    """key set of RS256 tokens: an https address, or a file"""
    issuer: str | None = Field(None, min_length=1)
    """tokens must be issued by it (`iss`)"""
    audience: str | None = Field(None, min_length=1)
    """tokens must be meant for it (`aud`)"""
    leeway_s: int = Field(30, ge=0, le=600)
    """seconds that clocks may differ"""


class OidcSettings(BaseModel):
    """Sign-in at an identity provider."""

    model_config = _GROUP

    issuer: str | None = Field(None, pattern=r"^https?://[^\s?#]+$")
    """OpenID Connect provider at which people sign in to the page; needs `auth_secret`, too"""
    client_id: str | None = Field(None, min_length=1)
    """client id of this service at that provider"""
    client_secret: SecretStr | None = Field(None, min_length=1)
    """its secret (none: a public client)"""
    scopes: str = Field("openid profile email", pattern=r"^openid( [\x21\x23-\x5b\x5d-\x7e]+)*$")
    """scopes that are asked for; some providers want groups or offline_access besides"""
    roles: RolesByClaim = Field(default_factory=dict[str, dict[str, Role]])
    """who gets which role, as JSON: claim of the ID token, its value (*: any), role; the highest
    counts, and who gets none cannot sign in
    """
    workspaces: WorkspacesByClaim = Field(default_factory=dict[str, dict[str, str]])
    """in the same way, who may work in which workspace (default: all in `workspace`)"""


class Settings(BaseSettings):
    """Everything that can be configured. Environment: NODIUS_ and the name in capitals,
    or as listed.

    What stands below a setting is its meaning in the table of docs/reference.md.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, populate_by_name=True
    )

    db: str = "sqlite:.nodius/nodius.db"
    """database: sqlite:PATH, memory: or arango+http://…"""
    workspace: str = Field("default", min_length=1)
    """whose graphs to work with"""
    language: Language = "en"
    """language of contexts, prompts and messages"""

    embeddings: Literal["auto", "local", "minilm", "multilingual", "openai", "none"] = "auto"
    """the embedder: the packaged model (local), one that reads words in context (minilm, an extra),
    one of sixteen languages (multilingual, an extra), an OpenAI-compatible server, or none; auto:
    openai with its key, unless `llm_base_url` sends questions elsewhere; else local
    """
    embedder: EmbedderSettings = Field(default_factory=EmbedderSettings)

    provider: str = Field("auto", min_length=1)
    """whose model answers: auto (first key found: DeepSeek, OpenAI, Anthropic; else `llm_base_url`;
    else offline), deepseek, openai, openai-mini, anthropic, qwen, mistral, groq, openrouter,
    gemini, ollama, llama.cpp, vllm, lmstudio, compatible, offline
    """
    model: str | None = Field(None, min_length=1)
    """name of the model (default: the provider's)"""
    llm: LlmSettings = Field(default_factory=LlmSettings)
    usage_limits: UsageLimitSettings = Field(default_factory=UsageLimitSettings)

    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    """how to retrieve"""
    max_nodes: int = Field(20, ge=1, le=500)
    """nodes of a context"""
    max_depth: int = Field(2, ge=0, le=5)
    """edges walked from a seed in vector mode"""
    seeds: int = Field(5, ge=1, le=100)
    """seeds of vector mode"""
    min_cosine: float = Field(0.3, ge=-1, le=1)
    """least cosine in vector mode"""
    second_look: bool = False
    """have the model assess what was found before it answers, and search once more for what is
    missing: one more call of the model a question
    """
    truncate_process: int = Field(500, ge=0, le=100_000)
    """characters of code shown of a node"""
    truncate_data: int = Field(400, ge=0, le=100_000)
    """characters of what the data of a node say, as it is shown"""
    budget_tokens: int = Field(4000, ge=100, le=1_000_000)
    """tokens of a context"""
    block_tokens: int = Field(8000, ge=100, le=1_000_000)
    """tokens that the blocks of a message find at most"""
    history_turns: int = Field(6, ge=1, le=100)
    """turns of a conversation that a model is always sent whole"""
    undo: UndoSettings = Field(default_factory=UndoSettings)
    trace_days: int = Field(30, ge=0, le=365)
    """days it is kept how an answer came about (0: not noted)"""
    cache_ttl_s: float = Field(120, ge=0)
    """seconds a retrieval is remembered (0: never)"""

    deciders: Literal["asker", "reviewer", "four-eyes"] = "asker"
    """who decides a proposed change: asker (an editor in their own threads, or a reviewer),
    reviewer (reviewers and admins only), four-eyes (a reviewer or admin who did not ask for it);
    live edits and imports by editors need no decision
    """
    require_validation: Annotated[tuple[ActionClass, ...], NoDecode, BeforeValidator(_names)] = (
        get_args(ActionClass)
    )
    """kinds of proposed change that a person must decide, separated by commas: layout, content,
    structure, delete, code, types; others are applied by policy, unless the workspace, the graph or
    a node type demands a person
    """

    timezone: TimeZone = Field("UTC", min_length=1)
    """IANA time zone where no automation or browser names one"""
    day_start_hour: int = Field(0, ge=0, le=23)
    """hour at which a day of a period begins"""
    first_day: Literal["monday", "sunday", "saturday"] = "monday"
    """first day of the week of a period"""
    automations_at_once: int = Field(2, ge=0, le=100)
    """automations that this server runs side by side (0: none)"""
    automations_yield: bool = True
    """pause the automation of a graph while somebody has a conversation about it"""
    automation_min_interval_s: int = Field(300, ge=1)
    """seconds between two scheduled runs of an automation at least"""
    automations_max: int = Field(1000, ge=0)
    """automations of a workspace at most"""
    automation_keep: int = Field(100, ge=1)
    """ended runs of an automation that are kept"""
    automation_keep_days: int = Field(90, ge=1)
    """days for which ended runs are kept"""
    notify: NotifySettings = Field(default_factory=NotifySettings)

    agent_http_allow: Names = ()
    """addresses that agents may reach although they are not public, separated by commas:
    localhost:3000, 10.1.0.0/16, api.internal:8443
    """
    agent_http_only: Names = ()
    """host patterns outside which agents reach nothing, as *.example.com"""
    secrets_dir: str | None = Field(None, min_length=1)
    """folder with one file for each secret of agents, by its name"""
    agent_secrets: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """secrets that documents of agents name, each in a variable of its own"""
    body_builders: Names = ()
    """entry points of `nodius.body_builders` that are loaded, separated by commas"""
    agent_sources: Names = ()
    """files of lists that the agents of the workspace are kept in step with, separated by commas
    (see `nodius agents sync`)
    """

    public_url: str | None = Field(None, pattern=r"^https?://[^\s/?#]+/?$")
    """address under which telephone services reach this server, and with which the links that other
    programs are given begin, as https://nodius.example.com
    """
    twilio: TwilioSettings = Field(default_factory=TwilioSettings)
    realtime: Literal["auto", "openai", "double", "off"] = "auto"
    """whose model speaks on the telephone: OpenAI's Realtime interface (openai), a stand-in without
    key and network (double), nobody (off); auto: openai where its key is set, else off
    """
    realtime_url: str = Field("wss://api.openai.com/v1/realtime", pattern=r"^wss?://[^\s/]+")
    """address of the Realtime interface"""
    realtime_api_key: SecretStr | None = Field(None, min_length=1)
    """its key (default: OPENAI_API_KEY)"""
    voice: VoiceSettings = Field(default_factory=VoiceSettings)
    call_retention_days: int = Field(30, ge=1)
    """days for which words, values and numbers of an ended call are kept; its sums stay"""

    host: str = Field("127.0.0.1", min_length=1)
    """address that `nodius serve` listens on"""
    port: int = Field(8426, ge=0, le=65535)
    """port of `nodius serve` (0: any free one)"""
    auth: AuthSettings = Field(default_factory=AuthSettings)
    oidc: OidcSettings = Field(default_factory=OidcSettings)
    cors_origins: str = ""
    """other web origins that may call the server, separated by commas"""
    forwarded_allow_ips: str = ""
    """addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed,
    separated by commas
    """
    rate_limit: int = Field(30, ge=0)
    """messages to models a minute for each person of a server (0: no limit)"""
    max_body_bytes: int = Field(1 << 20, ge=1024)
    """bytes of a request at most; an import may have 16 times as many"""

    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """least level of logged events"""
    ai_debug: bool = Field(
        False, validation_alias=AliasChoices("ai_debug", "AI_DEBUG", "NODIUS_AI_DEBUG")
    )
    """log debug events of retrieval and tools"""

    provider_keys: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """keys of providers by the name of their variable, as OPENAI_API_KEY; also given by that name
    in lower case, as `openai_api_key`
    """

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _with_provider_keys(_grouped(given))

    def value_of(self, name: str) -> Any:
        """Returns the value of a setting by its flat name, as `llm_base_url`."""
        group, field = _PLACES.get(name, (None, name))
        return getattr(self if group is None else getattr(self, group), field)

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """Returns a copy with other values, given by flat names. They are not checked."""
        update: dict[str, Any] = {}
        for name, value in values.items():
            group, field = _PLACES.get(name, (None, name))
            if group is None:
                update[field] = value
            else:
                before = update.get(group, getattr(self, group))
                update[group] = before.model_copy(update={field: value})
        return self.model_copy(update=update)

    def is_set(self, name: str) -> bool:
        """Whether the setting of this flat name was given, wherever."""
        group, field = _PLACES.get(name, (None, name))
        return field in (self if group is None else getattr(self, group)).model_fields_set

    def key_of(self, variable: str) -> SecretStr | None:
        """Return a provider's key by the name of its variable; an empty one is none."""
        key = self.provider_keys.get(variable)
        return key if key is not None and key.get_secret_value().strip() else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            env_settings,
            _GroupSource(settings_cls),
            _KeySource(settings_cls),
            _FileSource(settings_cls),
        )


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
"""Prefix and model of each group. A setting of a group has one flat name in flags, in the
environment and in nodius.toml: the prefix and its name in the group, as `llm_base_url`.
"""

_PLACES: dict[str, tuple[str, str]] = {
    prefix + field: (group, field)
    for group, (prefix, model) in SETTING_GROUPS.items()
    for field in model.model_fields
}
"""Group and name in it of each setting that has a group, by its flat name."""


def setting_fields() -> dict[str, FieldInfo]:
    """Returns the fields of all settings by their flat names, in the order of their declaration."""
    fields: dict[str, FieldInfo] = {}
    for name, field in Settings.model_fields.items():
        if name in SETTING_GROUPS:
            prefix, model = SETTING_GROUPS[name]
            fields |= {prefix + each: info for each, info in model.model_fields.items()}
        else:
            fields[name] = field
    return fields


def _grouped(given: dict[str, Any]) -> dict[str, Any]:
    """Returns settings with those that have flat names moved into their groups."""
    grouped = {name: value for name, value in given.items() if name not in _PLACES}
    for name in given.keys() & _PLACES.keys():
        group, field = _PLACES[name]
        grouped[group] = {**grouped.get(group, {}), field: given[name]}
    return grouped


def _with_provider_keys(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings with what is named NAME_api_key, and is no other
    setting, among `provider_keys`.
    """
    named = [name for name in given if name.endswith("_api_key") and name not in setting_fields()]
    if not named:
        return given
    keys = {**given.get("provider_keys", {}), **{name.upper(): given[name] for name in named}}
    keys = {name: key for name, key in keys.items() if key is not None}
    return {name: value for name, value in given.items() if name not in named} | {
        "provider_keys": keys
    }


class _WholeSource(PydanticBaseSettingsSource):
    """Gives all of its settings at once."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False


class _GroupSource(_WholeSource):
    """Reads from the environment the settings that have a group."""

    def __call__(self) -> dict[str, Any]:
        present = {name.upper(): value for name, value in os.environ.items()}
        fields = setting_fields()
        return _grouped(
            {
                name: present[variable]
                for name in _PLACES
                for variable in reversed(_variables(name, fields[name]))
                if variable in present
            }
        )


class _KeySource(_WholeSource):
    """Reads from the environment the keys of providers, NAME_API_KEY,
    and secrets, NODIUS_SECRET_NAME.
    """

    def __call__(self) -> dict[str, Any]:
        return {
            "provider_keys": {
                name: value
                for name, value in os.environ.items()
                if name.endswith("_API_KEY") and not name.startswith(PREFIX)
            },
            "agent_secrets": {
                name.removeprefix(SECRET_PREFIX): value
                for name, value in os.environ.items()
                if name.startswith(SECRET_PREFIX) and name != SECRET_PREFIX
            },
        }


class _FileSource(_WholeSource):
    """Reads nodius.toml of the working directory, or the file that NODIUS_CONFIG names."""

    def __call__(self) -> dict[str, Any]:
        named = os.environ.get(PREFIX + "CONFIG")
        path = Path(named or CONFIG_FILE)
        if not path.is_file():
            if named:
                raise SettingsError(
                    name="config", origin=PREFIX + "CONFIG", reason=f"no file {named}"
                )
            return {}
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
            return _with_provider_keys(_grouped(given))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as exc:
            raise SettingsError(name="config", origin=str(path), reason=str(exc)) from exc


def load_settings(**flags: Any) -> Settings:
    """Resolve the settings; `flags` are what a caller gave explicitly. Raises: SettingsError."""
    try:
        return Settings(**flags)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        name = _flat_name(first["loc"])
        raise SettingsError(name=name, origin=_origin(name, flags), reason=first["msg"]) from None


def _flat_name(place: tuple[int | str, ...]) -> str:
    """Returns the name of the setting that an error is about."""
    if not place:
        return "?"
    name = str(place[0])
    if len(place) > 1 and name in SETTING_GROUPS:
        return SETTING_GROUPS[name][0] + str(place[1])
    return str(place[1]).lower() if len(place) > 1 and name == "provider_keys" else name


def _origin(name: str, flags: dict[str, Any]) -> str:
    if name in flags:
        return "given on the command line"
    for variable in (PREFIX + name.upper(), name.upper()):
        if variable in os.environ:
            return f"environment variable {variable}"
    return f"file {os.environ.get(PREFIX + 'CONFIG') or CONFIG_FILE}"


_BY_NAME = {"provider_keys": "NAME_API_KEY", "agent_secrets": SECRET_PREFIX + "NAME"}
"""Settings that gather variables, and how these are named."""


def setting_variables() -> dict[str, str]:
    """Returns the environment variable of every setting, by its flat name."""
    return {
        name: _BY_NAME.get(name) or _variables(name, field)[0]
        for name, field in setting_fields().items()
    }


def _variables(name: str, field: FieldInfo) -> list[str]:
    """Returns the environment variables of a setting, the preferred one first."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else ()
    return [str(choice) for choice in choices if str(choice).isupper()] or [PREFIX + name.upper()]
