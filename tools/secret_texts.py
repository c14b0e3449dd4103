"""Recognises passwords, tokens and keys in texts and by the names of fields: obvious ones only.

Decision: what people type into a graph is stored as they typed it, for their workflow needs it, and so it is
in Nodius JSON. A placeholder stands in its place wherever it is read out: to a model, in answers of the
rules, in lists of what refers to what; and in a file for another tool, which is made to be passed on. There
credentials are names, as in that tool's own files.

Each pattern reads a text once, whatever stands in it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

PLACEHOLDER = "(secret left out)"

_SECRET_FIELD = re.compile(
    r"(password|passwd|passphrase|secret|(secret|api|access|private)key|authorization"
    r"|(access|api|auth|bearer|bot|refresh)token)$|^(token|bearer)$"
)
_TOKEN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|sk_live_[A-Za-z0-9]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{30,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{20,}"
    r"|nodius_key_[0-9a-f]{8,}_[A-Za-z0-9_-]{20,})"
)
_SIGNED = re.compile(r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{13,}+)\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+")
"""Perhaps a JSON web token: from the beginning of a run of its letters, so that each is read once."""
_TOKEN_HINTS = ("sk-", "sk_live_", "xox", "gh", "AKIA", "AIza", "glpat-", "nodius_key_", "eyJ")
_BEGIN = re.compile(r"\beyJ")
_BEARER = re.compile(r"\b(Bearer|Basic)\s++[A-Za-z0-9._~+/=-]{16,}")
_LOGIN = re.compile(r"(://[^\s/@:'\"`]*:)([^\s/?#'\"`]+)(?=@)")
_PARAMETER = re.compile(r"([?&;]([A-Za-z][A-Za-z0-9_.-]{0,60})=)([^\s&;#'\"`<>\\]+)")
_SIGNATURES = frozenset(("sig", "signature", "pwd", "pass"))
_KEYS = frozenset(("key", "auth"))
"""Parameters that hold a secret where their value looks like one: with a digit, and not short."""
_KEY_CHARS = 8
REFERENCE = re.compile(r"^\s*=|\{\{|\$\{|\$\(|<[^<>]{1,80}>|^\s*$")


MAX_NAME = 100
"""What is longer is no field's name; long names are not remembered either."""


def is_secret_name(name: str) -> bool:
    """Say whether a field of this name holds a secret wherever it is met: `apiKey`, `X-API-Key`, …"""
    return len(name) <= MAX_NAME and _names_secret(name)


@lru_cache(maxsize=10_000)
def _names_secret(name: str) -> bool:
    letters = "".join(c for c in name if c.isalnum()).lower()
    return _SECRET_FIELD.search(letters) is not None


class Redacted(NamedTuple):
    """A text without its secrets, and how many there were."""

    text: str
    tokens: int
    in_addresses: int


def redacted(text: str) -> Redacted:
    """Return a text or code with a placeholder for each token, bearer header and secret of an address."""
    text, in_addresses = _without_address_secrets(text)
    if not any(hint in text for hint in (*_TOKEN_HINTS, "Bearer", "Basic")):
        return Redacted(text, 0, in_addresses)
    signed = 0

    def web_token(match: re.Match[str]) -> str:
        nonlocal signed
        begin = _BEGIN.search(match[1])
        if begin is None or len(match[1]) - begin.start() < 13:
            return match[0]
        signed += 1
        return match[1][: begin.start()] + PLACEHOLDER

    clean, found = _TOKEN.subn(PLACEHOLDER, _SIGNED.sub(web_token, text))
    clean, headers = _BEARER.subn(rf"\1 {PLACEHOLDER}", clean)
    return Redacted(clean, found + headers + signed, in_addresses)


def _without_address_secrets(text: str) -> tuple[str, int]:
    """Replace what lets somebody in at an address: the password before its host, secret parameters."""
    found = 0

    def login(match: re.Match[str]) -> str:
        nonlocal found
        if REFERENCE.search(match[2]):
            return match[0]
        found += 1
        return match[1] + PLACEHOLDER

    def parameter(match: re.Match[str]) -> str:
        nonlocal found
        name, value = match[2].lower(), match[3]
        is_key = name in _KEYS and len(value) >= _KEY_CHARS and any(map(str.isdigit, value))
        is_secret = is_key or name in _SIGNATURES or is_secret_name(name)
        is_kept = REFERENCE.search(match[3]) or match[3].startswith(PLACEHOLDER.split(" ")[0])
        if not is_secret or is_kept:
            return match[0]
        found += 1
        return match[1] + PLACEHOLDER

    if "@" in text and "://" in text:
        text = _LOGIN.sub(login, text)
    if "=" in text and ("?" in text or "&" in text):
        text = _PARAMETER.sub(parameter, text)
    return text, found
