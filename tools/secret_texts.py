"""Recognizes obvious passwords, tokens and keys in texts and by the names of fields.

Decision: secrets in a graph are stored and exported as Nodius JSON unchanged, because the workflow
needs them. They are replaced by a placeholder in everything that is read: texts for a model,
answers of the rules, lists of references; and in exports for another tool, which are made to be
shared. Those contain only the names of credentials, as files of that tool do.

Decision: the patterns are written here, and the prefixes of tokens are taken from a scanner's
catalogue (`token_beginnings.txt`); no scanner runs. Scanners look for secrets in source code,
where names stand beside them; here a token may stand alone, in an address or in a sentence. Of 36
kinds of tokens in six places each, detect-secrets 1.5 knows 6 everywhere by their shape. With its
detectors of random text it knows 32, but changes all of ten harmless texts too. Betterleaks 2.0
knows 9, Kingfisher 1.5 knows 14. `python -m tests.benchmarks.secret_scanners` measures those that
are installed.

Each pattern reads a text in one pass, whatever its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

PLACEHOLDER = "(secret left out)"
MIN_CHARS = 8  # a shorter text cannot contain a token or an address with a secret

_SECRET_FIELD = re.compile(
    r"(password|passwd|passphrase|secret|(secret|api|access|private)key|authorization"
    r"|(access|api|auth|bearer|bot|refresh)token)$|^(token|bearer)$"
)
_TOKEN = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{30,}|glpat-[A-Za-z0-9_.-]{20,}|nodius_key_[0-9a-f]{8,}_[A-Za-z0-9_-]{20,}"
    r"|hf_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}|fc-[0-9a-f]{20,}|re_[A-Za-z0-9]{8,}_[A-Za-z0-9]{16,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{20,}|EAA[A-Za-z0-9]{30,}"
    r"|pat[A-Za-z0-9]{14}\.[a-f0-9]{32,}|dapi[a-f0-9]{32}|LTAI[A-Za-z0-9]{16,}|SK[a-f0-9]{32}\b"
    r"|(?:sk|fw|jina|e2b|secret|sb_secret|whsec|lin_oauth)_[A-Za-z0-9]{24,}|ATAT[A-Za-z0-9_=-]{60,}"
    r"|(?:pa|al)-[A-Za-z0-9_-]{40,}|sl\.[A-Za-z0-9_-]{60,}|[sp]k\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{16,}"
    r"|sq0[a-z]{3}-[A-Za-z0-9_-]{20,}|tvly-[A-Za-z0-9_-]{20,}|[0-9a-f]{32}-us[0-9]{1,2}\b)"
    # Telegram tokens, which follow `/bot` in addresses
    r"|(?<![0-9])[0-9]{6,16}:[A-Za-z0-9_-]{32,}"
)
_SIGNED = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z0-9_-]{13,}+)\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+"
)
"""A possible JSON Web Token. Matches start at the beginning of a run of its characters, so that
each character is read once.
"""
_PREFIX = re.compile(r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]{0,15}[_.-](?=[A-Za-z0-9_.+=-]{16})")
"""A possible prefix of a token format published by its provider."""
_FIRST_PART = re.compile(r"[A-Za-z][A-Za-z0-9]{0,15}[_.-]")
_BODY = re.compile(r"[A-Za-z0-9_.+=-]*[A-Za-z0-9_=]")
_RANDOM = re.compile(r"(?=[A-Za-z]{0,11}[0-9])[A-Za-z0-9]{12}|[A-Za-z0-9]{24}")
"""Characters that are not a word: twelve in a row with a digit, or 24."""
_STAND_IN = re.compile(r"xxxx|\*\*\*|\.\.\.|\byour[ _-]|[_-]here\b", re.IGNORECASE)
"""Placeholders that people write for a secret: `sk-xxxxxxxx`, `YOUR_API_KEY`, `token-goes-here`."""
_HOOK = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/[0-9]+/"
    r"|hooks\.zapier\.com/hooks/catch/|hook\.[a-z0-9]{2,8}\.make\.com/|maker\.ifttt\.com/trigger/[^/\s]{1,60}/(?:json/)?with/key/"
    r"|\b(?:AccountKey|SharedAccessKey|SharedSecretKey)=|\.webhook\.office\.com/webhookb2/|api\.telegram\.org/(?:file/)?bot)([A-Za-z0-9_:@/.+=-]{14,})"
)
"""Addresses that grant access without further credentials, and keys in Azure connection strings."""
_PEM = re.compile(
    r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
    r"(?:(?:(?!-----)[\s\S]){32,10000}+-----END [A-Z ]{0,40}KEY(?: BLOCK)?-----"
    r"|(?:\s|\\[nr]|[A-Za-z0-9+/=]{16,})++)"  # the end is missing
)
_BEGIN = re.compile(r"\beyJ")
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s++)[A-Za-z0-9._~+/=-]{16,}")
_LOGIN = re.compile(r"(://[^\s/@:'\"`]*:)([^\s/?#'\"`]+)(?=@)")
_PARAMETER = re.compile(r"([?&;]([A-Za-z][A-Za-z0-9_.-]{0,60})=)([^\s&;#'\"`<>\\]+)")
_SIGNATURES = frozenset(("sig", "signature", "pwd", "pass"))
_KEYS = frozenset(("key", "auth"))
"""URL parameters that are a secret if their value has a digit and at least `_KEY_CHARS` characters.
"""
_KEY_CHARS = 8
REFERENCE = re.compile(
    r"\{\{|%7B%7B|\$\{|\$\(|^\s*$"  # an expression in it; nothing
    r"|^\s*(?:<[^<>]{1,80}>|\{[\w. -]{1,80}\}|\[[\w. -]{1,80}\]|%[A-Za-z_]\w*%|[xX*.•]+)\s*$"
    r"|^=?\s*(?:\$(?:[A-Z][A-Z0-9_]*|[a-z_]+|[A-Za-z_]\w*(?:\.\w+|\[[^\[\]]{1,80}\])+)|process\.env\.\w+)\s*$"
    r"|^\W*(?i:(?:insert|enter|replace|put|paste|add)[ _-](?:with[ _-])?)?(?i:your)"
    r"(?:[ _-][A-Za-z0-9]{1,20}){1,6}\W*$"
    r"|[\[<{]\s*(?i:your)[ _-]|(?i:\byour[ _-][\w-]{1,60}[_-]here\b)"
    r"|^YOUR[A-Z]{1,40}HERE$|^(?i:undefined|null|none)$"
)
"""Values that are not a secret: expressions, variables (`$KEY`, `%KEY%`) and placeholders."""

MAX_NAME = 100  # longer names count as harmless and are not cached


def is_secret_name(name: str) -> bool:
    """Returns whether a field of this name always holds a secret: `apiKey`, `X-API-Key`, …"""
    return len(name) <= MAX_NAME and _names_secret(name)


@lru_cache(maxsize=10_000)
def _names_secret(name: str) -> bool:
    letters = "".join(c for c in name if c.isalnum()).lower()
    return _SECRET_FIELD.search(letters) is not None


class Redacted(NamedTuple):
    """A text without its secrets, and the number of secrets replaced."""

    text: str
    tokens: int
    in_addresses: int


def redacted(text: str) -> Redacted:
    """Returns a text with placeholders for tokens, keys, bearer headers and secrets in
    addresses.
    """
    if len(text) < MIN_CHARS:
        return Redacted(text, 0, 0)
    text, in_addresses = _without_address_secrets(text)
    tokens = 0

    def replaced(match: re.Match[str]) -> str:
        """Returns the first group (as `Bearer `) and a placeholder; a placeholder stays as
        it is.
        """
        nonlocal tokens
        kept = match[1] if match.re.groups else ""
        if _STAND_IN.search(match[0], len(kept)):
            return match[0]
        tokens += 1
        return kept + PLACEHOLDER

    def web_token(match: re.Match[str]) -> str:
        nonlocal tokens
        begin = _BEGIN.search(match[1])
        if begin is None or len(match[1]) - begin.start() < 13:
            return match[0]
        tokens += 1
        return match[1][: begin.start()] + PLACEHOLDER

    if "-----BEGIN" in text:
        text = _PEM.sub(replaced, text)
    if ".com/" in text or "Key=" in text or "api.telegram.org" in text:
        text = _HOOK.sub(replaced, text)
    if "eyJ" in text:
        text = _SIGNED.sub(web_token, text)
    text = _TOKEN.sub(replaced, text)
    text, published = _without_published(text)
    if "Bearer" in text or "Basic" in text:
        text = _BEARER.sub(replaced, text)
    return Redacted(text, tokens + published, in_addresses)


def _without_published(text: str) -> tuple[str, int]:
    """Replaces tokens that have a published prefix and continue with random characters."""
    parts: list[str] = []
    done = written = replaced = 0
    for match in _PREFIX.finditer(text):
        if match.start() < done or not _begins_token(text, match):
            continue
        body = _BODY.match(text, match.end())
        done = body.end() if body else match.end()
        if _RANDOM.search(text, match.end(), done) and not _STAND_IN.search(
            text, match.end(), done
        ):
            parts += (text[written : match.start()], PLACEHOLDER)
            written = done
            replaced += 1
    return ("".join((*parts, text[written:])), replaced) if replaced else (text, 0)


def _begins_token(text: str, prefix: re.Match[str]) -> bool:
    return any(text.startswith(begin, prefix.start()) for begin in _beginnings().get(prefix[0], ()))


@cache
def _beginnings() -> Mapping[str, Sequence[str]]:
    """Returns the published prefixes of tokens, grouped by their first part."""
    by_part: dict[str, list[str]] = {}
    for line in (
        resources.files(__package__ or "tools")
        .joinpath("token_beginnings.txt")
        .read_text("utf-8")
        .splitlines()
    ):
        if part := _FIRST_PART.match(line):
            by_part.setdefault(part[0], []).append(line)
    return by_part


def _without_address_secrets(text: str) -> tuple[str, int]:
    """Replaces the secrets in addresses: the password before the host, and secret parameters."""
    found = 0

    def login(match: re.Match[str]) -> str:
        nonlocal found
        if REFERENCE.search(match[2]):
            return match[0]
        found += 1
        return match[1] + PLACEHOLDER

    def parameter(match: re.Match[str]) -> str:
        nonlocal found
        name = match[2].lower()
        value = match[3]
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
