"""Keeps passwords, tokens and keys out of a graph: values in obvious places only."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from graphrag.importers.json_values import Json, as_dict
from graphrag.importers.report import Tally

PLACEHOLDER = "(secret left out)"

_SECRET_FIELD = re.compile(
    r"(password|passwd|passphrase|secret|(secret|api|access|private)key|authorization"
    r"|(access|api|auth|bearer|bot|refresh)token)$|^(token|bearer)$"
)
_TOKEN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|sk_live_[A-Za-z0-9]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|gh[pousr]_[A-Za-z0-9]{30,}"
    r"|github_pat_[A-Za-z0-9_]{30,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{35}|glpat-[A-Za-z0-9_-]{20,})"
)
_SIGNED = re.compile(r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{13,}+)\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+")
"""Perhaps a JSON web token: from the beginning of a run of its letters, so that each is read once."""
_TOKEN_HINTS = ("sk-", "sk_live_", "xox", "gh", "AKIA", "AIza", "glpat-", "eyJ")
_BEGIN = re.compile(r"\beyJ")
_BEARER = re.compile(r"\b(Bearer|Basic)\s++[A-Za-z0-9._~+/=-]{16,}")
_LOGIN = re.compile(r"(://[^\s/@:'\"`]*:)([^\s/?#'\"`]+)(?=@)")
_PARAMETER = re.compile(r"([?&;]([A-Za-z][A-Za-z0-9_.-]{0,60})=)([^\s&;#'\"`<>\\]+)")
_SIGNATURES = frozenset(("sig", "signature", "pwd", "pass"))
_REFERENCE = re.compile(r"^\s*=|\{\{|\$\{|\$\(|<[^<>]{1,80}>|^\s*$")


MAX_NAME = 100
"""What is longer is no field's name; long names are not remembered either."""


def is_secret_name(name: str) -> bool:
    """Say whether a field of this name holds a secret wherever it is met: `apiKey`, `X-API-Key`, …"""
    return len(name) <= MAX_NAME and _names_secret(name)


@lru_cache(maxsize=10_000)
def _names_secret(name: str) -> bool:
    letters = "".join(c for c in name if c.isalnum()).lower()
    return _SECRET_FIELD.search(letters) is not None


def scrub_text(text: str, tally: Tally, where: str) -> str:
    """Replace what can only be a token or a bearer header inside a text or code."""
    text = _scrub_addresses(text, tally, where)
    if not any(hint in text for hint in (*_TOKEN_HINTS, "Bearer", "Basic")):
        return text
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
    if found := found + headers + signed:
        tally.drop("secret", "a token in a text; a placeholder stands in its place", where, count=found)
    return clean


def _scrub_addresses(text: str, tally: Tally, where: str) -> str:
    """Replace what lets somebody in at an address: the password before its host, secret parameters."""
    found = 0

    def login(match: re.Match[str]) -> str:
        nonlocal found
        if _REFERENCE.search(match[2]):
            return match[0]
        found += 1
        return match[1] + PLACEHOLDER

    def parameter(match: re.Match[str]) -> str:
        nonlocal found
        is_secret = match[2].lower() in _SIGNATURES or is_secret_name(match[2])
        is_kept = _REFERENCE.search(match[3]) or match[3].startswith(PLACEHOLDER.split(" ")[0])
        if not is_secret or is_kept:
            return match[0]
        found += 1
        return match[1] + PLACEHOLDER

    if "@" in text and "://" in text:
        text = _LOGIN.sub(login, text)
    if "=" in text and ("?" in text or "&" in text):
        text = _PARAMETER.sub(parameter, text)
    if found:
        tally.drop("secret", "a secret in an address; a placeholder stands in its place", where, count=found)
    return text


def scrub(value: Any, tally: Tally, where: str) -> Any:
    """Return a copy of a JSON value without secrets; an expression that refers to one is kept."""
    if isinstance(value, str):
        return scrub_text(value, tally, where)
    if isinstance(value, list):
        return [scrub(item, tally, where) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return _scrub_object(cast(Json, value), tally, where)
    return value


def without_secrets(document: Any) -> Any:
    """Return a file as it may be kept: without secrets, and of credentials their names alone."""
    return scrub(_without_credentials(document), Tally(), "")


def _without_credentials(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_credentials(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(Json, value)
    kept = {name: _without_credentials(item) for name, item in fields.items() if name != "credentials"}
    held = fields.get("credentials")
    if isinstance(held, dict) and "parameters" in fields:  # n8n's, which name what another place keeps
        items = cast(Json, held).items()
        names = ((kind, (as_dict(value) or {}).get("name", value)) for kind, value in items)
        kept["credentials"] = {kind: name for kind, name in names if isinstance(name, str)}
    return kept


def _scrub_object(fields: Json, tally: Tally, where: str) -> Json:
    clean: Json = {}
    named = _holds_secret_value(fields)
    for name, value in fields.items():
        secret = isinstance(value, str) and (is_secret_name(name) or (named and name == "value"))
        if secret and not _REFERENCE.search(value):
            clean[name] = PLACEHOLDER
            if value != PLACEHOLDER:
                tally.drop("secret", "a password, token or key; a placeholder stands in its place", where)
        else:
            clean[name] = scrub(value, tally, where)
    return clean


def _holds_secret_value(fields: Json) -> bool:
    """Say whether an object is a pair like {name: "Authorization", value: "…"}."""
    if fields.get("type") == "cred":
        return True
    name = fields.get("name", fields.get("key"))
    return isinstance(name, str) and "value" in fields and is_secret_name(name)
