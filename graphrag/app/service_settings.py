"""Settings that admins set on the page: one record of the service, with its keys encrypted.

Decision: these settings are of the service, so all of its workspaces share them, and every question
of every workspace may go to the model that they name. Only admins of the workspace of the settings
(NODIUS_WORKSPACE), that of whoever runs the service, may change them; admins of other workspaces
are refused. The record and its audit entry are in that workspace.

What the environment, the command line or nodius.toml sets comes first, and cannot be changed here.
A given address never gets a key of the environment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from pydantic import SecretStr

from datasources.base import Record, RecordStore, RecordWrite
from graphrag.app.agent_services import rules_of
from graphrag.app.connection_services import key_store_of
from graphrag.app.databases import open_database
from graphrag.app.models import Model, check_embedding_price, check_price
from graphrag.approvals import Approvals
from graphrag.config import Settings, SettingsError, load_settings
from graphrag.connections.errors import ConnectionRefused
from graphrag.embedding import make_embedder
from graphrag.i18n import Language, LocalizedError, text
from graphrag.llm.registry import choose
from graphrag.roles import Person
from tools.http.addresses import AddressRefused, AddressRules, origin_of
from tools.http.checked_transport import CheckedTransport

log = logging.getLogger(__name__)

KIND: Final = "service_settings"
KEY: Final = "service"
LOOK_UP_S: Final = 5.0
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
# Take effect at once, for requests that begin later.
AT_ONCE: Final = ("provider", "model", "llm_base_url", "llm_api_key")
# Take effect when the server starts again.
AT_START: Final = (
    *("embeddings", "embeddings_model", "embeddings_base_url", "embeddings_api_key"),
    *("rate_limit", "max_total_tokens", "max_total_cost"),
    *("max_workspace_tokens", "max_workspace_cost", "max_person_tokens", "max_person_cost"),
    *("automations_at_once", "voice_max_calls"),
)
ADJUSTABLE: Final = AT_ONCE + AT_START
KEYS: Final = ("llm_api_key", "embeddings_api_key")
# A key of the environment belongs to the server that the environment names.
_KEY_OF: Final = {"llm_base_url": "llm_api_key", "embeddings_base_url": "embeddings_api_key"}


class SettingRefused(LocalizedError):
    """A value of a setting is not allowed; the details say why."""

    def __init__(self, *, name: str, reason: str) -> None:
        self._reason = reason
        super().__init__(name=name)

    def details(self, language: Language) -> str:  # noqa: ARG002 - of the settings, in English
        return self._reason


class SettingFixed(LocalizedError):
    """The environment, the command line or nodius.toml sets this."""

    def __init__(self, *, name: str) -> None:
        super().__init__(name=name)


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The values that were set on the page by flat names; of keys the encrypted text."""

    values: Mapping[str, Any]
    version: str | None = None

    @classmethod
    def of(cls, record: Record | None) -> StoredSettings:
        if record is None:
            return cls({})
        stored = record.data.get("values", {})
        known = {name: value for name, value in stored.items() if name in ADJUSTABLE}
        return cls(known, record.version)


async def stored_before_start(settings: Settings) -> StoredSettings:
    """Returns what the database holds, before anything else of the service is open.

    Raises: SourceError, InvalidDatabaseUrl.
    """
    if settings.db.startswith("memory:"):
        return StoredSettings({})
    async with open_database(settings.db, settings.workspace) as database:
        records = database.records(settings.workspace)
        return StoredSettings.of(await records.get(KIND, KEY))


def with_stored(settings: Settings, stored: StoredSettings) -> Settings:
    """Returns the settings of the environment, with those of the page where the environment sets
    none. A stored value that cannot be used is left out, with a warning in the log.
    """
    opened: dict[str, Any] = {}
    for name, value in stored.values.items():
        if settings.is_set(name):
            continue
        try:
            shown = SecretStr(key_store_of(settings).opened(value)) if name in KEYS else value
            opened[name] = _valid(name, shown)
        except (SettingRefused, ConnectionRefused):
            log.warning("stored_setting_unusable", extra={"setting": name})
    if "llm_base_url" in opened:
        opened["provider_keys"] = {}
    return settings.with_values(opened)


def _valid(name: str, value: Any) -> Any:
    """Returns the value as the settings hold it. Raises: SettingRefused."""
    try:
        return load_settings(db="memory:", **{name: value}).value_of(name)
    except SettingsError as exc:
        raise SettingRefused(name=name, reason=exc.reason) from None


async def _check_start(settings: Settings) -> None:
    """Raises SettingsError if the service could not start with these settings."""
    check_price(settings, choose(settings).pricing)
    embedder = make_embedder(settings)
    try:
        check_embedding_price(settings, embedder)
    finally:
        if embedder is not None:
            await embedder.aclose()


@final
class ServiceSettings:
    """Changes the stored settings, and lets a stored model answer. `environment`: the settings
    without those of the page.
    """

    def __init__(
        self,
        environment: Settings,
        records: RecordStore,
        model: Model,
        *,
        started_with: StoredSettings,
    ) -> None:
        self._environment = environment
        self._records = records
        self._model = model
        self._started_with = started_with
        self._seen: str | None = None

    def is_fixed(self, name: str) -> bool:
        return name not in ADJUSTABLE or self._environment.is_set(name)

    def waits_for_start(self, stored: StoredSettings) -> tuple[str, ...]:
        """Returns the settings whose stored value is not that with which this server started."""
        before, now = self._started_with.values, stored.values
        return tuple(name for name in AT_START if before.get(name) != now.get(name))

    async def stored(self) -> StoredSettings:
        """Raises: SourceError."""
        return StoredSettings.of(await self._records.get(KIND, KEY))

    def effective(self, stored: StoredSettings) -> Settings:
        return with_stored(self._environment, stored)

    async def change(
        self, changes: Mapping[str, Any], by: Person, approvals: Approvals, language: Language
    ) -> StoredSettings:
        """Stores values, None to take one back, with an audit entry; a model takes effect at once.
        `language` is that of the reason why an address is refused.

        Raises: SettingRefused (also if the service could not start with these values),
        SettingFixed, ConnectionRefused (no secret to encrypt a key with), RecordConflict,
        SourceError.
        """
        before = await self.stored()
        values = dict(before.values)
        for name, value in changes.items():
            if self.is_fixed(name):
                raise SettingFixed(name=name)
            values.pop(name, None)
            if value is not None:
                values[name] = self._storable(name, value)
                if name in _KEY_OF:
                    await self._check_address(name, values[name], language)
        effective = self.effective(StoredSettings(values))
        try:
            await _check_start(effective)
            if any(name in AT_ONCE for name in changes) and not self._model.is_given:
                await self._model.use(effective, client_options(self._environment, values))
        except SettingsError as exc:
            raise SettingRefused(name=exc.name, reason=exc.reason) from None
        write = RecordWrite(
            kind=KIND, key=KEY, data={"values": values}, expected_version=before.version
        )
        facts = {"event": "settings_set", "settings": sorted(changes)}

        async def put(entry: Sequence[RecordWrite]) -> None:
            await self._records.write([write, *entry])

        await approvals.audited(by, facts, put)
        stored = await self.stored()
        self._seen = stored.version
        return stored

    async def refresh(self) -> None:
        """Lets the model answer that another server stored, if there is another than before."""
        stored = await self.stored()
        if stored.version == self._seen or self._model.is_given:
            return
        self._seen = stored.version
        try:
            options = client_options(self._environment, stored.values)
            await self._model.use(self.effective(stored), options)
        except SettingsError as exc:
            log.warning("stored_setting_unusable", extra={"setting": exc.name})

    def _storable(self, name: str, value: Any) -> Any:
        """Returns the value as the record holds it. Raises: SettingRefused, ConnectionRefused."""
        valid = _valid(name, value)
        if name not in KEYS:
            return valid
        return key_store_of(self._environment).seal(valid.get_secret_value())

    async def _check_address(self, name: str, address: str, language: Language) -> None:
        """Raises SettingRefused for an address that may not be given on the page, or that would
        get a key of the environment.
        """
        if self._environment.is_set(_KEY_OF[name]):
            raise SettingRefused(name=name, reason=f"{_KEY_OF[name]} is set in the environment")
        try:
            origin = origin_of(address)
            async with asyncio.timeout(LOOK_UP_S):
                await page_rules(self._environment).check(origin.host, origin.port)
        except AddressRefused as exc:
            reason = text("settings_address", language, host=exc.host)
            raise SettingRefused(name=name, reason=reason) from None
        except (OSError, ValueError):
            reason = text("settings_no_address", language)
            raise SettingRefused(name=name, reason=reason) from None


def client_options(environment: Settings, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the options of the HTTP client of a model: an address that was given on the page
    must be one that agents may reach, or without sign-in one of this computer.
    """
    if "llm_base_url" not in values or environment.is_set("llm_base_url"):
        return {}
    return {"transport": CheckedTransport(page_rules(environment)), "trust_env": False}


def page_rules(settings: Settings) -> AddressRules:
    """Returns which addresses of a model an admin may give on the page."""
    rules = rules_of(settings)
    has_sign_in = any((settings.auth.secret, settings.auth.public_key, settings.auth.jwks))
    return rules if has_sign_in else replace(rules, allow=(*rules.allow, *LOOPBACK))
