"""The choice of a provider: detection, overrides, keys that stay where they belong, and prices."""

import os
from pathlib import Path
from typing import Any

import pytest

from graphrag.app.models import MAX_OTHERS, OtherModels
from graphrag.config import Settings, SettingsError, load_settings
from graphrag.llm import errors
from graphrag.llm.base import LLMProvider, UsageReport
from graphrag.llm.openai_compatible import OpenAICompatibleProvider
from graphrag.llm.receiver import HistoryRules
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
from tests.graphrag.llm.wire import chunks_of, openai_provider, openai_text, streamed, text_of
from tests.support.scripted_http import Answer, ScriptedServer

KEYS = {
    "deepseek": "DEEPSEEK_API_KEY",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
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
def test_the_first_key_decides(
    monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], found: str
) -> None:
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
    assert (choice.entry.name, choice.base_url, choice.model) == (
        COMPATIBLE,
        "http://127.0.0.1:9/v1",
        "m",
    )
    assert choice.key is None


def test_a_detected_key_is_never_sent_to_an_address_set_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    settings = load_settings(llm_base_url="http://127.0.0.1:9/v1", llm_api_key="other", model="m")
    choice = choose(settings)
    assert (choice.entry.name, choice.base_url) == ("openai", "https://api.openai.com/v1")
    assert choice.key.get_secret_value() == "secret"
    with pytest.raises(
        SettingsError, match="name the model"
    ):  # `model` is that of the provider in use
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
    assert choice.key.get_secret_value() == "mine"
    assert choice.pricing.cost_usd(MILLION) == pytest.approx(12.0)
    assert "mine" not in repr(choice)


@pytest.mark.parametrize(
    ("settings", "missing"),
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


@pytest.mark.parametrize("name", [*[name for name in ENTRIES if name != OFFLINE]])
async def test_every_entry_makes_a_provider(name: str) -> None:
    settings = load_settings(
        provider=name, model="m", llm_api_key="k", llm_base_url="http://127.0.0.1:9/v1"
    )
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
            history=HistoryRules(late_system="user"),
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


@pytest.mark.parametrize("name", ["deepseek", "openai", "openai-mini", "anthropic"])
def test_the_prices_of_default_models_are_known_to_the_price_list(name: str) -> None:
    entry = ENTRIES[name]
    listed = Pricing(model=entry.model or "", genai_provider=entry.genai_provider)
    cost = listed.cost_usd(UsageReport(prompt=1_000, completion=100, cached=500))
    assert cost is not None
    assert cost > 0
    assert entry.price.cost_usd(UsageReport(prompt=1_000, completion=100)) > 0


def test_prices_come_from_the_settings_then_the_list_then_the_registry_then_nobody() -> None:
    own = Price(input=1.0)
    fallback = Price(input=2.0)
    used = UsageReport(prompt=1_000_000)
    listed = Pricing(model="gpt-4o", genai_provider="openai", fallback=fallback).cost_usd(used)
    assert listed not in (None, 2.0)
    assert Pricing(model="gpt-4o", genai_provider="openai", fixed=own).cost_usd(used) == 1.0
    assert (
        Pricing(model="no-such", genai_provider="openai", fallback=fallback).cost_usd(used) == 2.0
    )
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
        assert choice.key.get_secret_value() == key
        assert key not in repr(load_settings()) + repr(choice)
    flags = {variable.lower(): "of-the-caller"}
    choice = choose(load_settings(provider=entry.name, **flags))
    assert choice.key.get_secret_value() == "of-the-caller"


MODEL = "qwen"
NOTHING = Answer(status=404, body={"error": "no such address"})
LISTED = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}

SERVERS: dict[str, tuple[list[Answer], int | None]] = {
    "vLLM": (
        [Answer(body={"data": [{"id": MODEL, "max_model_len": 4096}, {"id": "other"}]})],
        4096,
    ),
    "llama.cpp": (
        [
            Answer(body={"data": [{"id": MODEL, "meta": {"n_ctx_train": 32768}}]}),
            Answer(body={"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1}),
        ],
        4096,
    ),
    "Ollama": (
        [
            Answer(body=LISTED),
            NOTHING,
            Answer(body={"models": [{"name": MODEL, "context_length": 8192}]}),
        ],
        8192,
    ),
    "LM Studio": (
        [
            *(Answer(body=LISTED), NOTHING, NOTHING),
            Answer(
                body={
                    "data": [
                        {"id": MODEL, "loaded_context_length": 4096, "max_context_length": 131072}
                    ]
                }
            ),
        ],
        4096,
    ),
    "a server that does not say": ([Answer(body=LISTED), NOTHING, NOTHING, NOTHING], None),
    "a server that says nonsense": (
        [Answer(body=["x"]), NOTHING, Answer(body=7), Answer(body=b"<p>")],
        None,
    ),
    "an absurd window": (
        [Answer(body={"data": [{"id": MODEL, "max_model_len": -1}]}), NOTHING, NOTHING, NOTHING],
        None,
    ),
}


def provider_of(url: str, **more: Any) -> OpenAICompatibleProvider:
    return openai_provider(url, model=MODEL, context_window=4_000, **more)


@pytest.mark.parametrize("name", [*SERVERS])
async def test_the_window_is_read_from_what_each_kind_of_server_says(name: str) -> None:
    answers, window = SERVERS[name]
    with ScriptedServer(scripts_facts=True) as server:
        server.play(*answers)
        provider = provider_of(server.url, learns_window=True)
        await provider.learn_window()
        assert provider.context_window == (window or 4_000)
        await provider.learn_window()  # asked once, not with every question
        await provider.aclose()
        assert {request.method for request in server.requests} == {"GET"}


async def test_a_window_that_is_set_is_not_asked_for() -> None:
    with ScriptedServer(scripts_facts=True) as server:
        provider = provider_of(server.url)
        await provider.learn_window()
        assert provider.context_window == 4_000
        await provider.aclose()


async def test_a_server_that_is_not_there_is_found_out_when_a_question_is_asked() -> None:
    provider = provider_of("http://127.0.0.1:1", learns_window=True)
    await provider.learn_window()
    assert provider.context_window == 4_000
    with pytest.raises(errors.ModelUnreachable):
        await provider.facts()
    await provider.aclose()


async def test_a_model_is_made_once_and_of_very_many_the_last_used_are_kept() -> None:
    others = OtherModels(Settings(openai_api_key="sk-test"))  # type: ignore[arg-type]
    first, _ = others.of("openai", "model-0")
    assert first.model == "model-0"
    for number in range(1, 3 * MAX_OTHERS):
        others.of("openai", f"model-{number}")
        assert others.of("openai", "model-0")[0] is first, "one that is used is kept"
    forgotten, _ = others.of("openai", "model-1")
    assert forgotten.model == "model-1"
    assert len(others._providers) == MAX_OTHERS  # pyright: ignore[reportPrivateUsage]
    await others.aclose()
    await first.aclose()
