"""Keeps passwords, tokens and keys out of a graph: values in obvious places only."""

from __future__ import annotations

from typing import Any, cast

from graphrag.importers.json_values import Json, as_dict
from graphrag.importers.report import Tally
from tools.secret_texts import PLACEHOLDER, REFERENCE, is_secret_name, redacted


def scrub_text(text: str, tally: Tally, where: str) -> str:
    """Replace what can only be a token or a bearer header inside a text or code."""
    clean = redacted(text)
    if clean.in_addresses:
        reason = "a secret in an address; a placeholder stands in its place"
        tally.drop("secret", reason, where, count=clean.in_addresses)
    if clean.tokens:
        tally.drop(
            "secret", "a token in a text; a placeholder stands in its place", where, count=clean.tokens
        )
    return clean.text


def scrub(value: Any, tally: Tally, where: str) -> Any:
    """Return a copy of a JSON value without secrets; an expression that refers to one is kept."""
    if isinstance(value, str):
        return scrub_text(value, tally, where)
    if isinstance(value, list):
        return [scrub(item, tally, where) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return _scrub_object(cast(Json, value), tally, where)
    return value


def without_secrets(document: Any, tally: Tally | None = None) -> Any:
    """Return a file as it may be kept: without secrets, and of credentials their names and ids alone.

    `tally` counts the secrets that were left out.
    """
    return scrub(_without_credentials(document), tally or Tally(), "")


def _without_credentials(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_credentials(item) for item in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(Json, value)
    kept = {name: _without_credentials(item) for name, item in fields.items() if name != "credentials"}
    held = fields.get("credentials")
    if isinstance(held, dict) and "parameters" in fields:  # n8n's, which name what another place keeps
        named = ((kind, _named(value)) for kind, value in cast(Json, held).items())
        kept["credentials"] = {kind: name for kind, name in named if name is not None}
    return kept


def _named(credential: Any) -> Any:
    """Return a credential's name and id, which say where another place keeps it."""
    fields = as_dict(credential)
    if fields is None:
        return credential if isinstance(credential, str) else None
    return {name: fields[name] for name in ("id", "name") if isinstance(fields.get(name, 0), str | None)}


def _scrub_object(fields: Json, tally: Tally, where: str) -> Json:
    clean: Json = {}
    named = _holds_secret_value(fields)
    for name, value in fields.items():
        secret = isinstance(value, str) and (is_secret_name(name) or (named and name == "value"))
        if secret and not REFERENCE.search(value):
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
