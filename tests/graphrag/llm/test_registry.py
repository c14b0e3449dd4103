"""The choice of a provider: detection, overrides, keys that stay where they belong, and prices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from graphrag.config import SettingsError, load_settings
from graphrag.llm.base import LLMProvider, UsageReport
from graphrag.llm.registry import (
    COMPATIBLE,
    ENTRIES,
    OFFLINE,
    Price,
    Pricing,
    ProviderEntry,
    choose,
    detect,
    make_provider,
)
from tests.graphrag.llm.wire import chunks_of, openai_text, streamed, text_of
from tests.support.each_row import each_row
from tests.support.scripted_http import ScriptedServer

KEYS = {"deepseek": "DEEPSEEK_API_KEY", "openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
LOCAL = ("ollama", "llama.cpp", "vllm", "lmstudio")
MILLION = UsageReport(prompt=1_000_000, completion=1_000_000)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("NODIUS_", "OPENAI_", "ANTHROPIC_", "DEEPSEEK_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def offline() -> LLMProvider:
    raise LookupError("the offline answerer was asked for")


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (("deepseek", "openai", "anthropic"), "deepseek"),
        (("openai", "anthropic"), "openai"),
        (("anthropic",), "anthropic"),
        ((), OFFLINE),
    ],
)
def test_the_first_key_decides(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], found: str) -> None:
    for name in keys:
        monkeypatch.setenv(KEYS[name], f"key-of-{name}")
    choice = choose(load_settings())
    assert choice.entry.name == found
    assert choice.model == ENTRIES[found].model
    key = choice.key.get_secret_value() if choice.key else None
    assert key == (f"key-of-{found}" if keys else None)


def test_an_empty_key_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", " ")
    assert detect(load_settings()) == OFFLINE


def test_an_address_alone_means_a_local_server() -> None:
    choice = choose(load_settings(llm_base_url="http://127.0.0.1:9/v1", model="m"))
    assert (choice.entry.name, choice.base_url, choice.model) == (COMPATIBLE, "http://127.0.0.1:9/v1", "m")
    assert choice.key is None


def test_a_detected_key_is_never_sent_to_an_address_set_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    settings = load_settings(llm_base_url="http://127.0.0.1:9/v1", llm_api_key="other", model="m")
    choice = choose(settings)
    assert (choice.entry.name, choice.base_url) == ("openai", "https://api.openai.com/v1")
    assert choice.key is not None
    assert choice.key.get_secret_value() == "secret"
    with pytest.raises(SettingsError, match="name the model"):  # `model` is that of the provider in use
        choose(settings, COMPATIBLE)


def test_a_named_provider_takes_model_address_key_window_and_price_of_the_settings() -> None:
    settings = load_settings(
        provider="openai",
        model="gpt-4o",
        llm_base_url="http://127.0.0.1:9/v1",
        llm_api_key="mine",
        llm_context_window=5_000,
        llm_max_tokens=7,
        llm_price_input=3.0,
        llm_price_output=9.0,
    )
    choice = choose(settings)
    assert (choice.model, choice.base_url) == ("gpt-4o", "http://127.0.0.1:9/v1")
    assert (choice.context_window, choice.max_tokens) == (5_000, 7)
    assert choice.key is not None
    assert choice.key.get_secret_value() == "mine"
    assert choice.pricing.cost_usd(MILLION) == pytest.approx(12.0)
    assert "mine" not in repr(choice)


@each_row(
    "settings, missing",
    [
        ({"provider": "nobody"}, "must be auto or one of"),
        ({"provider": "openai"}, "openai_api_key"),
        ({"provider": "anthropic"}, "anthropic_api_key"),
        ({"provider": "ollama"}, "name the model"),
        ({"provider": "compatible", "model": "m"}, "llm_base_url"),
        ({"llm_base_url": "http://127.0.0.1:9"}, "name the model"),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, Any], missing: str) -> None:
    with pytest.raises(SettingsError, match=missing):
        choose(load_settings(**settings))


@each_row("name", [name for name in ENTRIES if name != OFFLINE])
async def test_every_entry_makes_a_provider(name: str) -> None:
    settings = load_settings(provider=name, model="m", llm_api_key="k", llm_base_url="http://127.0.0.1:9/v1")
    provider = make_provider(choose(settings), offline=offline)
    assert (provider.name, provider.model) == (name, "m")
    assert provider.context_window > 0
    await provider.aclose()


async def test_a_further_provider_is_one_entry_with_its_own_key_variable_and_no_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedServer() as server:
        entry = ProviderEntry(
            name="dummy",
            kind="openai",
            base_url=f"{server.url}/v1",
            key_variable="DUMMY_API_KEY",
            model="dummy-1",
            context_window=64_000,
            resend_reasoning=True,
        )
        monkeypatch.setitem(ENTRIES, entry.name, entry)
        with pytest.raises(SettingsError, match="DUMMY_API_KEY"):
            choose(load_settings(provider="dummy"))
        monkeypatch.setenv("DUMMY_API_KEY", "key-of-dummy")
        monkeypatch.setenv("ELSE_API_KEY", "very-secret")
        assert detect(load_settings()) == OFFLINE  # such a key alone chooses nothing
        server.play(streamed(openai_text("Hello")))
        provider = make_provider(choose(load_settings(provider="dummy")), offline=offline)
        chunks, error = await chunks_of(provider)
        await provider.aclose()
    assert error is None
    assert text_of(chunks) == "Hello"
    assert (provider.name, provider.model, provider.context_window) == ("dummy", "dummy-1", 64_000)
    [request] = server.requests
    assert request.headers["authorization"] == "Bearer key-of-dummy"
    assert "very-secret" not in str(request.headers)


async def test_a_local_server_gets_no_key_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in KEYS.values():
        monkeypatch.setenv(variable, "very-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "very-secret")
    with ScriptedServer() as server:
        server.play(streamed(openai_text("Hello")))
        settings = load_settings(provider="ollama", model="m", llm_base_url=f"{server.url}/v1")
        provider = make_provider(choose(settings), offline=offline)
        chunks, error = await chunks_of(provider)
        await provider.aclose()
    assert error is None
    assert text_of(chunks) == "Hello"
    [request] = server.requests
    assert "very-secret" not in str(request.headers)
    assert "very-secret" not in request.body.decode()


@each_row("name", ["deepseek", "openai", "openai-mini", "anthropic"])
def test_the_prices_of_default_models_are_known_to_the_price_list(name: str) -> None:
    entry = ENTRIES[name]
    listed = Pricing(model=entry.model or "", genai_provider=entry.genai_provider)
    cost = listed.cost_usd(UsageReport(prompt=1_000, completion=100, cached=500))
    assert cost is not None
    assert cost > 0
    assert entry.price is not None
    assert entry.price.cost_usd(UsageReport(prompt=1_000, completion=100)) > 0


def test_prices_come_from_the_settings_then_the_list_then_the_registry_then_nobody() -> None:
    own, fallback = Price(input=1.0), Price(input=2.0)
    used = UsageReport(prompt=1_000_000)
    listed = Pricing(model="gpt-4o", genai_provider="openai", fallback=fallback).cost_usd(used)
    assert listed not in (None, 2.0)
    assert Pricing(model="gpt-4o", genai_provider="openai", fixed=own).cost_usd(used) == 1.0
    assert Pricing(model="no-such", genai_provider="openai", fallback=fallback).cost_usd(used) == 2.0
    assert Pricing(model="no-such", genai_provider="openai").cost_usd(used) is None


def test_remembered_tokens_have_their_own_price() -> None:
    price = Price(input=10.0, output=20.0, cached=1.0, cache_write=12.5)
    used = UsageReport(prompt=1_000_000, completion=500_000, cached=400_000, cache_written=100_000)
    assert price.cost_usd(used) == pytest.approx(5.0 + 0.4 + 1.25 + 10.0)


def test_an_unknown_model_of_a_known_provider_has_no_price_of_another() -> None:
    choice = choose(load_settings(provider="openai", model="no-such-model", llm_api_key="k"))
    assert choice.pricing.cost_usd(MILLION) is None
    assert choice.context_window == 128_000


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES.values() if entry.key_variable])
def test_a_key_is_given_by_its_variable_or_in_the_file_and_never_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entry: ProviderEntry
) -> None:
    variable = entry.key_variable or ""
    (tmp_path / "nodius.toml").write_text(f'{variable.lower()} = "of-the-file"\n')
    for given, key in (("of-the-environment", "of-the-environment"), (None, "of-the-file")):
        monkeypatch.delenv(variable, raising=False)
        if given:
            monkeypatch.setenv(variable, given)
        choice = choose(load_settings(provider=entry.name))
        assert choice.key is not None
        assert choice.key.get_secret_value() == key
        assert key not in repr(load_settings()) + repr(choice)
    flags = {variable.lower(): "of-the-caller"}
    choice = choose(load_settings(provider=entry.name, **flags))
    assert choice.key is not None
    assert choice.key.get_secret_value() == "of-the-caller"
