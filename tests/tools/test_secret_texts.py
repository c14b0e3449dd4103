"""Tokens of the shapes that secret scanners know are replaced; what stands in for one is not."""

import random
import string

import pytest

from tools.secret_texts import PLACEHOLDER, REFERENCE, redacted

_LETTERS = string.ascii_letters + string.digits
_HEX = string.digits + "abcdef"


def _run(length: int, letters: str = _LETTERS, *, seed: int = 7) -> str:
    return "".join(random.Random(seed).choices(letters, k=length))


TOKENS = {
    "openai": "sk-proj-" + _run(48),
    "anthropic": "sk-ant-api03-" + _run(93) + "AA",
    "github": "ghp_" + _run(36),
    "slack": "xoxb-" + _run(12, string.digits) + "-" + _run(24),
    "aws": "AKIA" + _run(16, string.ascii_uppercase + "234567"),
    "google": "AIza" + _run(35),
    "google oauth": "ya29." + _run(90),
    "hugging face": "hf_" + _run(34, string.ascii_letters),
    "sendgrid": "SG." + _run(22) + "." + _run(43),
    "replicate": "r8_" + _run(37),
    "airtable": "pat" + _run(14) + "." + _run(64, _HEX),
    "facebook": "EAAG" + _run(150),
    "stripe test": "sk_test_" + _run(24),
    "apify": "apify_api_" + _run(36),
    "groq": "gsk_" + _run(52),
    "xai": "xai-" + _run(80),
    "perplexity": "pplx-" + _run(48),
    "brevo": "xkeysib-" + _run(64, _HEX) + "-" + _run(16),
    "tavily": "tvly-dev-" + _run(32),
    "notion": "ntn_" + _run(46),
    "notion, older": "secret_" + _run(43),
    "mailgun": "key-" + _run(32, _HEX),
    "linear": "lin_api_" + _run(40),
    "npm": "npm_" + _run(36),
    "firecrawl": "fc-" + _run(32, _HEX),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + _run(80),
    "gitlab": "glpat-" + _run(20),
    "shopify": "shpat_" + _run(32, _HEX),
    "digital ocean": "dop_v1_" + _run(64, _HEX),
    "pinecone": "pcsk_" + _run(5) + "_" + _run(60),
    "supabase": "sbp_" + _run(40, _HEX),
    "figma": "figd_" + _run(40),
    "atlassian": "ATATT3xFfGF0" + _run(180),
    "mailchimp": _run(32, _HEX) + "-us12",
    "databricks": "dapi" + _run(32, _HEX),
    "telegram": _run(10, "123456789") + ":AA" + _run(33),
}


AROUND = (
    "{}",
    "https://api.example/a/{}/b?q=1",
    'const key = "{}";',
    "Bearer {}",
    "key:{}, b",
    "Is {}.",
)
HARMLESS = (
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hf_your_token_goes_right_here",
    "Bearer YOUR_API_KEY_GOES_HERE",
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "https://api.example/?api_key=$API_KEY&token={token}&apikey=YOUR_API_KEY",
    "https://api.example/?token=%7B%7B%20key%20%7D%7D",
    "api_live_customer_orders_2024_export_table",
    "key_value_pairs_of_the_customer_record",
    "5f2b8c1e-1d2f-4c6a-9a57-0d6c6f2e9f10",
    "n8n-nodes-base.httpRequestTool, @n8n/n8n-nodes-langchain.lmChatOpenAi",
)


def is_left(token: str, text: str) -> bool:
    """Whether ten characters of a token in a row are still in a text."""
    return any(token[at : at + 10] in text for at in range(len(token) - 10))


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", TOKENS)
def test_a_token_is_replaced_wherever_it_stands(name: str, around: str) -> None:
    left = redacted(around.format(TOKENS[name])).text
    assert PLACEHOLDER in left
    assert not is_left(TOKENS[name], left)


@pytest.mark.parametrize(
    ("address", "left"),
    [
        (
            f"https://hooks.slack.com/services/T0ABCDEFG/B0ABCDEFG/{_run(24)}",
            "https://hooks.slack.com/services/",
        ),
        (
            f"https://discord.com/api/webhooks/123456789012345678/{_run(68)}",
            "webhooks/123456789012345678/",
        ),
        (
            f"https://api.telegram.org/bot7654321:{_run(35)}/sendMessage",
            "https://api.telegram.org/bot",
        ),
        (f"AccountName=x;AccountKey={_run(86)}==;EndpointSuffix=y", "AccountName=x;AccountKey="),
        (
            f"-----BEGIN RSA PRIVATE KEY-----\n{_run(64)}\n{_run(20)}\n-----END RSA PRIVATE KEY-----\nend",
            "-----",
        ),
        (
            f"-----BEGIN PRIVATE KEY-----\\n{_run(64)}\\n{_run(64, seed=8)}",
            "-----BEGIN PRIVATE KEY-----",
        ),
    ],
)
def test_what_lets_in_who_knows_it_is_replaced(address: str, left: str) -> None:
    clean = redacted(address).text
    assert PLACEHOLDER in clean
    assert left in clean
    assert _run(20) not in clean
    assert redacted(clean) == (clean, 0, 0)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_token_stays(text: str) -> None:
    assert redacted(text).text == text


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("$API_KEY", True),
        ("=$json.token", True),
        ("{{ secrets.key }}", True),
        ("<your key>", True),
        ("YOUR_API_KEY", True),
        ("process.env.API_KEY", True),
        ("bot[your-telegram-bot-token]", True),
        ("YOURTOKENHERE", True),
        ("************", True),
        ("$ecret-and-9-more", False),
        ("=hunter2", False),
        ("my dog is called rex", False),
        ("pa<ss>word1", False),
    ],
)
def test_a_value_refers_to_a_secret_or_is_one(value: str, is_one: bool) -> None:
    assert (REFERENCE.search(value) is not None) is is_one
