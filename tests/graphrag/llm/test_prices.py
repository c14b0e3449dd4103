"""What calls of models cost: nothing that a service counts makes a known price unknown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from graphrag.app.models import open_model
from graphrag.app.wiring import open_shared
from graphrag.config import SettingsError, load_settings
from graphrag.llm.base import UsageReport
from graphrag.llm.registry import Pricing, RealtimeTokens, choose, embedding_pricing
from graphrag.realtime.model_messages import tokens_of

MODEL = "gpt-realtime"
DONE: dict[str, Any] = {
    "total_tokens": 721,
    "input_tokens": 600,
    "output_tokens": 121,
    "input_token_details": {
        "text_tokens": 100,
        "audio_tokens": 500,
        "image_tokens": 0,
        "cached_tokens": 448,
        "cached_tokens_details": {"text_tokens": 64, "audio_tokens": 384, "image_tokens": 0},
    },
    "output_token_details": {"text_tokens": 30, "audio_tokens": 91},
}
"""The form is that of OpenAI's reference of `response.done`."""


def test_an_answer_with_cached_audio_and_text_has_its_price() -> None:
    tokens = tokens_of(DONE)
    assert (tokens.cached_audio, tokens.cached_text) == (384, 64)
    details: dict[str, Any] = {
        **DONE["input_token_details"],
        "cached_tokens": 0,
        "cached_tokens_details": {},
    }
    plain = tokens_of({**DONE, "input_token_details": details}).cost_usd(MODEL)
    cost = tokens.cost_usd(MODEL)
    assert cost is not None
    assert plain is not None
    assert 0 < cost < plain


def test_cached_tokens_whose_kind_is_not_said_have_a_price() -> None:
    details = {k: v for k, v in DONE["input_token_details"].items() if k != "cached_tokens_details"}
    tokens = tokens_of({**DONE, "input_token_details": details})
    assert (tokens.cached_text, tokens.cached_audio) == (100, 348)
    assert tokens.cost_usd(MODEL)


few = st.integers(0, 1_000)
counts = st.builds(
    RealtimeTokens,
    audio_in=few,
    text_in=few,
    image_in=few,
    cached_audio=few,
    cached_text=few,
    cached_image=few,
    audio_out=few,
    text_out=few,
)


@given(counts)
def test_whatever_an_answer_counts_its_price_is_known(tokens: RealtimeTokens) -> None:
    used = tokens.report()
    cost = tokens.cost_usd(MODEL)
    assert cost is not None
    assert (cost > 0) == (used.prompt + used.completion > 0)


@given(st.builds(UsageReport, prompt=few, completion=few, cached=few, cache_written=few))
def test_whatever_a_request_counts_its_price_is_known(used: UsageReport) -> None:
    assert Pricing(model="gpt-5", genai_provider="openai").cost_usd(used) is not None
    assert Pricing(model="claude-sonnet-4-5", genai_provider="anthropic").cost_usd(used) is not None


@pytest.mark.parametrize(
    ("usage", "model", "is_known"),
    [
        ({"type": "duration", "seconds": 12.5}, "whisper-1", True),
        ({"type": "tokens", "input_tokens": 30, "output_tokens": 9}, "gpt-4o-transcribe", True),
        ({"type": "duration", "seconds": 12.5}, "gpt-4o-transcribe", False),
        ({"type": "tokens", "input_tokens": 30, "output_tokens": 9}, "no-such-model", False),
    ],
)
def test_a_transcript_has_the_price_of_what_it_is_billed_by(
    usage: dict[str, Any], model: str, is_known: bool
) -> None:
    cost = tokens_of(usage).cost_usd(model)
    assert (cost is not None and cost > 0) == is_known


@pytest.mark.parametrize("limit", ["max_total_cost", "max_workspace_cost", "max_person_cost"])
async def test_a_limit_in_money_is_refused_where_the_price_is_unknown(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "k")
    given: dict[str, Any] = {
        "provider": "compatible",
        "model": "m",
        "llm_base_url": "http://127.0.0.1:9/v1",
    }
    with pytest.raises(SettingsError, match=f"{limit}.*price is not known"):
        async with open_model(load_settings(**given, **{limit: 1.0}), embedder=None):
            pass
    prices = {"llm_price_input": 1.0, "llm_price_output": 2.0}
    async with open_model(load_settings(**given, **prices, **{limit: 1.0}), embedder=None) as model:
        with pytest.raises(SettingsError, match="price is not known"):
            model.of("qwen", "qwen-of-an-agent")


ELSEWHERE = "https://embeddings.example/v1"


@pytest.mark.parametrize("limit", ["max_total_cost", "max_workspace_cost", "max_person_cost"])
async def test_a_limit_in_money_is_refused_where_the_price_of_embeddings_is_unknown(
    limit: str,
) -> None:
    given: dict[str, Any] = {
        "db": "memory://",
        "embeddings": "openai",
        "embeddings_model": "bge-m3",
    }
    given |= {"embeddings_api_key": "k", "embeddings_base_url": ELSEWHERE, limit: 1.0}
    with pytest.raises(
        SettingsError, match=f"{limit}.*bge-m3.*price is not known: set embeddings_price"
    ):
        async with open_shared(load_settings(**given)):
            pass
    for known in (
        {"embeddings_price": 0.02},
        {"embeddings_model": "text-embedding-3-small"},
        {"embeddings_base_url": "http://127.0.0.1:9/v1"},
        {"embeddings": "local"},
    ):
        async with open_shared(load_settings(**given | known)) as shared:
            assert shared.embedder is not None


def test_the_price_of_embeddings_is_the_settings_then_the_published_one() -> None:
    used = UsageReport(prompt=1_000_000)
    small = "text-embedding-3-small"
    settings = load_settings(embeddings_base_url=ELSEWHERE)
    published = embedding_pricing(settings, small).cost_usd(used)
    assert published is not None
    assert published > 0
    assert embedding_pricing(settings, "bge-m3").cost_usd(used) is None
    assert embedding_pricing(load_settings(embeddings_price=7.0), small).cost_usd(used) == 7.0


def test_a_key_of_qwen_alone_chooses_its_provider_whose_price_is_not_made_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", "k")
    choice = choose(load_settings(provider="qwen"))
    assert (choice.entry.name, choice.model, choice.key) == ("qwen", "qwen-plus", SecretStr("k"))
    assert choice.pricing.cost_usd(UsageReport(prompt=1)) is None
