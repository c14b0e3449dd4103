"""Settings, resolved once: flag > environment > file > default. Nothing else
reads the environment.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from graphrag.setting_groups import (
    SETTING_GROUPS,
    AuthSettings,
    EmbedderSettings,
    LlmSettings,
    NotifySettings,
    OidcSettings,
    TwilioSettings,
    UndoSettings,
    UsageLimitSettings,
    VoiceSettings,
    flat_name,
    in_groups,
    place_of,
)
from languages import Language
from tools.actions.base import ActionClass
from tools.time_zones import TimeZone

PREFIX = "NODIUS_"
SECRET_PREFIX = "NODIUS_SECRET_"
CONFIG_FILE = "nodius.toml"


def _names(value: Any) -> Any:
    """Returns the names of a text, which commas separate; other values unchanged."""
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class SettingsError(Exception):
    """A setting cannot be used; the text names it, where it came from and what is allowed."""

    def __init__(self, *, name: str, origin: str, reason: str) -> None:
        self.name = name
        self.origin = origin
        self.reason = reason
        super().__init__(f"setting {name!r} ({origin}): {reason}")


class Settings(BaseSettings):
    """Everything that can be configured. Environment: NODIUS_ and the flat name in capitals, or
    as listed in `_OWN_VARIABLES`.

    Below each setting stands its meaning, which docs/reference.md shows.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    db: str = "sqlite:.nodius/nodius.db"
    """database: sqlite:PATH, memory:, postgres://… or arango+http://…"""
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
    require_validation: Annotated[tuple[ActionClass, ...], BeforeValidator(_names)] = get_args(
        ActionClass
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
    automation_spread_s: int = Field(20, ge=0, le=3600)
    """seconds over which a server spreads the starts of automations that are due at one time"""
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
    ai_debug: bool = False
    """log debug events of retrieval and tools"""

    provider_keys: dict[str, SecretStr] = Field(default_factory=dict[str, SecretStr])
    """keys of providers by the name of their variable, as OPENAI_API_KEY; also given by that name
    in lower case, as `openai_api_key`
    """

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, values: dict[str, Any]) -> dict[str, Any]:
        return _with_provider_keys(in_groups(values))

    def value_of(self, name: str) -> Any:
        """Returns the value of a setting by its flat name, as `llm_base_url`."""
        group, field = place_of(name)
        return getattr(self if group is None else getattr(self, group), field)

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        """Returns a copy with other values, given by flat names. The values are not checked."""
        update: dict[str, Any] = {}
        for name, value in values.items():
            group, field = place_of(name)
            if group is None:
                update[field] = value
            else:
                before = update.get(group, getattr(self, group))
                update[group] = before.model_copy(update={field: value})
        return self.model_copy(update=update)

    def is_set(self, name: str) -> bool:
        """Returns whether the setting with this flat name was given, in any source."""
        group, field = place_of(name)
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
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            init_settings,
            _VariableSource(settings_cls),
            _KeySource(settings_cls),
            _FileSource(settings_cls),
        )


def setting_fields() -> dict[str, FieldInfo]:
    """Returns the fields of all settings by their flat names, in the order of their declaration."""
    fields: dict[str, FieldInfo] = {}
    for name, field in Settings.model_fields.items():
        if name in SETTING_GROUPS:
            _, model = SETTING_GROUPS[name]
            fields |= {flat_name(name, own): info for own, info in model.model_fields.items()}
        else:
            fields[name] = field
    return fields


# Environment variables of the settings that do not have NODIUS_ and their name alone; the first
# wins.
_OWN_VARIABLES = {
    "embeddings_model": ("NODIUS_EMBEDDINGS_MODEL", "EMBEDDING_MODEL"),
    "embeddings_base_url": ("NODIUS_EMBEDDINGS_BASE_URL", "OPENAI_BASE_URL"),
    "ai_debug": ("AI_DEBUG", "NODIUS_AI_DEBUG"),
}

# Settings that gather several variables, and the pattern of their names.
_GATHERED_VARIABLES = {"provider_keys": "NAME_API_KEY", "agent_secrets": SECRET_PREFIX + "NAME"}


def _variables(name: str) -> tuple[str, ...]:
    """Returns the environment variables of a setting that gathers none, the preferred one first."""
    return _OWN_VARIABLES.get(name, (PREFIX + name.upper(),))


def setting_variables() -> dict[str, str]:
    """Returns the environment variable of every setting, by its flat name."""
    return {name: _GATHERED_VARIABLES.get(name, _variables(name)[0]) for name in setting_fields()}


def _environment() -> dict[str, str]:
    """Returns the environment by names in capitals: settings may be written in any case."""
    return {name.upper(): value for name, value in os.environ.items()}


def _with_provider_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings with those named NAME_api_key that are no other setting moved into
    `provider_keys`.
    """
    fields = setting_fields()
    named = {
        name.upper(): key
        for name, key in values.items()
        if name.endswith("_api_key") and name not in fields
    }
    if not named:
        return values
    keys = {**values.get("provider_keys", {}), **named}
    others = {name: value for name, value in values.items() if name.upper() not in named}
    return others | {"provider_keys": {name: key for name, key in keys.items() if key is not None}}


class _WholeSource(PydanticBaseSettingsSource):
    """Gives all of its settings at once."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return None, field_name, False


class _VariableSource(_WholeSource):
    """Reads from the environment the settings that have a variable of their own."""

    def __call__(self) -> dict[str, Any]:
        environment = _environment()
        return in_groups(
            {
                name: environment[variable]
                for name in setting_fields().keys() - _GATHERED_VARIABLES.keys()
                for variable in reversed(_variables(name))
                if variable in environment
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
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as exc:
            raise SettingsError(name="config", origin=str(path), reason=str(exc)) from exc
        for name in (*SETTING_GROUPS, *_GATHERED_VARIABLES):
            if not isinstance(values.get(name, {}), dict):
                reason = f"write a table of its settings, as [{name}]"
                raise SettingsError(name=name, origin=f"file {path}", reason=reason)
        return _with_provider_keys(in_groups(values))


def load_settings(**flags: Any) -> Settings:
    """Resolves the settings; `flags` are what a caller gave explicitly. Raises: SettingsError."""
    try:
        return Settings(**flags)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        name = _name_at(first["loc"])
        reason = _reason(first, name)
        raise SettingsError(name=name, origin=_origin(name, flags), reason=reason) from None


def _name_at(place: tuple[int | str, ...]) -> str:
    """Returns the name of the setting at the place of a validation error."""
    if not place:
        return "?"
    name = str(place[0])
    if len(place) > 1 and name in SETTING_GROUPS:
        return flat_name(name, str(place[1]))
    return str(place[1]).lower() if len(place) > 1 and name == "provider_keys" else name


def _reason(error: ErrorDetails, name: str) -> str:
    """Returns why a setting is refused. Pydantic says it, except for unknown names and secrets."""
    if error["type"] == "extra_forbidden":
        near = get_close_matches(name, setting_fields(), n=1)
        return "no setting has this name" + (f"; did you mean {near[0]}?" if near else "")
    if error["type"] == "too_short":  # pydantic counts the characters of a secret as items
        return f"must have at least {error.get('ctx', {})['min_length']} characters"
    return error["msg"].removeprefix("Value error, ")


def _origin(name: str, flags: dict[str, Any]) -> str:
    """Returns where the value of a setting came from, for a message."""
    if name in flags:
        return "given on the command line"
    environment = _environment()
    variables = _variables(name) if name in setting_fields() else (name.upper(),)
    for variable in variables:
        if variable in environment:
            return f"environment variable {variable}"
    return f"file {os.environ.get(PREFIX + 'CONFIG') or CONFIG_FILE}"
