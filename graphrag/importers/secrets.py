"""Takes passwords, tokens and keys out of a file before it is read: values in obvious places only.

Decision: the parsed file is cleaned, and everything else (names, keys, remarks, what is kept of
the file) is made from the clean one. Nothing that is derived from a value can hold what was
taken out of it.
"""

from __future__ import annotations

import re
from typing import Any, cast

from graphrag.importers.json_values import Json, as_dict, as_text
from graphrag.importers.report import Tally
from tools.secret_texts import PLACEHOLDER, REFERENCE, is_secret_name, redacted

_NODE_MARKS = frozenset({"parameters", "typeVersion", "position", "wires", "z"})
_N8N_MARKS = frozenset({"parameters", "typeVersion", "position"})
_NAMES = ("name", "key", "keyValue", "p")
_VALUES = {"value": "type", "valueValue": "valueType", "to": "tot", "v": "vt"}
"""The fields of a pair like `{name: "Authorization", value: "…"}`, and what says of which kind
the value is.

n8n's headers and assignments; Node-RED's headers, rules of *change* nodes and properties
of *inject* nodes.
"""
_LITERAL = frozenset({None, "str", "string", "cred", "other", ""})
_SCHEME = re.compile(r"^=?\s*(?:Bearer|Basic|Token)\s+", re.IGNORECASE)
"""What stands before the secret in a header."""

_LEAST_DIGITS = 4
"""A number of fewer digits is no password."""


def without_secrets(document: Any, tally: Tally | None = None) -> Any:
    """Return a file as it may be read and kept: without secrets, with names and ids of credentials.

    `tally` counts what was left out. An expression that refers to a secret is kept.
    """
    return _clean(document, tally or Tally(), "")


def scrub_text(text: str, tally: Tally, where: str) -> str:
    """Replace what can only be a token or a bearer header inside a text or code."""
    clean = redacted(text)
    if clean.in_addresses:
        reason = "a secret in an address; a placeholder stands in its place"
        tally.drop("secret", reason, where, count=clean.in_addresses)
    if clean.tokens:
        tally.drop(
            "secret",
            "a token in a text; a placeholder stands in its place",
            where,
            count=clean.tokens,
        )
    return clean.text


def _clean(value: Any, tally: Tally, where: str) -> Any:
    if isinstance(value, str):
        return scrub_text(value, tally, where)
    if isinstance(value, list):
        return [_clean(item, tally, where) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return _clean_object(cast(Json, value), tally, where)
    return value


def _clean_object(fields: Json, tally: Tally, where: str) -> Json:
    """Return an object without secrets; `where` is the name of the node that it belongs
    to, if any.
    """
    is_node = "type" in fields and (not where or not _NODE_MARKS.isdisjoint(fields))
    where = _called(fields) if is_node else where
    secret_values = _secret_values(fields)
    clean: Json = {}
    for raw_name, value in fields.items():
        name = scrub_text(raw_name, tally, where)
        if raw_name == "credentials" and (is_node or not where):
            if (held := _credentials(fields, tally, where)) is not None:
                clean[name] = held
        elif raw_name in secret_values or is_secret_name(raw_name):
            clean[name] = _without_value(value, tally, where)
        else:
            clean[name] = _clean(value, tally, where)
    return clean


def _without_value(value: Any, tally: Tally, where: str) -> Any:
    """Return what stands in for the value of a field that holds a secret, however it is written."""
    if isinstance(value, list):
        return [_without_value(item, tally, where) for item in cast(list[Any], value)]
    if (fields := as_dict(value)) is not None:  # n8n's {mode, value}
        clean = _clean_object(
            {name: item for name, item in fields.items() if name != "value"}, tally, where
        )
        held = {"value": _without_value(fields["value"], tally, where)} if "value" in fields else {}
        return {name: {**clean, **held}[name] for name in fields if name in clean or name in held}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and len(str(value)) < _LEAST_DIGITS:
        return value
    if not is_number and (not isinstance(value, str) or REFERENCE.search(_SCHEME.sub("", value))):
        return value
    if value != PLACEHOLDER:
        tally.drop("secret", "a password, token or key; a placeholder stands in its place", where)
    return PLACEHOLDER


def _secret_values(fields: Json) -> frozenset[str]:
    """Return the names of the fields whose value the object's own name field calls a secret."""
    names = [name for field in _NAMES if isinstance(name := fields.get(field), str)]
    is_secret = any(
        is_secret_name(name) or is_secret_name(name.rpartition(".")[2]) for name in names
    )
    if not is_secret and fields.get("type") != "cred":
        return frozenset()
    return frozenset(
        value
        for value, kind in _VALUES.items()
        if value in fields and _is_literal(fields.get(kind))
    )


def _is_literal(kind: Any) -> bool:
    return not isinstance(kind, str) or kind in _LITERAL


def _called(fields: Json) -> str:
    """Return what a node is called, without secrets."""
    names = (as_text(fields.get(field)) for field in ("name", "label", "type", "id"))
    return redacted(next(filter(None, names), "")).text


def _credentials(fields: Json, tally: Tally, where: str) -> Json | None:
    """Return n8n's credentials, which name what another place keeps; Node-RED's are left out."""
    held = as_dict(fields.get("credentials"))
    if held is None or _N8N_MARKS.isdisjoint(fields):
        if fields.get("credentials"):
            is_n8n = not _N8N_MARKS.isdisjoint(fields)
            reason = (
                "it is not written as n8n writes credentials"
                if is_n8n
                else "secrets are not imported"
            )
            tally.drop("credential", reason, where or "of the file")
        return None
    return {kind: _named(value, tally, f"{where}: {kind}") for kind, value in held.items()}


def _named(credential: Any, tally: Tally, where: str) -> Any:
    """Return a credential's name and id, which say where another place keeps it."""
    if isinstance(credential, str) or credential is None:  # old exports give the bare name
        return credential if credential is None else scrub_text(credential, tally, where)
    fields = as_dict(credential) or {}
    named = {
        name: scrub_text(value, tally, where) if isinstance(value, str) else None
        for name in ("id", "name")
        if isinstance(value := fields.get(name, 0), str | None)
    }
    if len(named) < len(fields) or not fields:
        tally.drop("credential", "it may hold a secret; only names are kept", where)
    return named
