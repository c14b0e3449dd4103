"""Removes passwords, tokens and keys from a file before it is read. Detects only obvious places.

Decision: the parsed file is cleaned first, and everything else (names, keys, remarks, the stored
copy of the file) is made from the cleaned one. So no derived value can contain a removed secret.
"""

from __future__ import annotations

import re
from typing import Any, cast

from graphrag.importers.json_values import Json, as_dict, as_text
from graphrag.importers.report import Tally
from tools.secret_texts import PLACEHOLDER, REFERENCE, is_secret_name, redacted

_NODE_MARKS = frozenset({"parameters", "typeVersion", "position", "wires", "z"})
_N8N_MARKS = frozenset({"parameters", "typeVersion", "position"})
# The fields that name such a value.
_NAMES = ("name", "key", "keyValue", "p")
# The value field of a pair like `{name: "Authorization", value: "…"}`, and the field that holds the
# type of the value. For n8n's headers and assignments, and for Node-RED's headers, rules of
# *change* nodes and properties of *inject* nodes.
_VALUES = {"value": "type", "valueValue": "valueType", "to": "tot", "v": "vt"}
# Types of values that are written as they are; others are expressions or references.
_LITERAL = frozenset({None, "str", "string", "cred", "other", ""})
# The prefix of a secret in a header.
_SCHEME = re.compile(r"^=?\s*(?:Bearer|Basic|Token)\s+", re.IGNORECASE)

# A number with fewer digits is not treated as a password.
_LEAST_DIGITS = 4


def without_secrets(document: Any, tally: Tally | None = None) -> Any:
    """Returns the document without secrets. Names and ids of credentials stay.

    `tally` counts what was removed. An expression that refers to a secret stays.
    """
    return _clean(document, tally or Tally(), "")


def scrub_text(text: str, tally: Tally, where: str) -> str:
    """Replaces the tokens and bearer headers in a text or code by a placeholder."""
    clean = redacted(text)
    if clean.in_addresses:
        reason = "a secret in an address; replaced by a placeholder"
        tally.drop("secret", reason, where, count=clean.in_addresses)
    if clean.tokens:
        tally.drop(
            "secret",
            "a token in a text; replaced by a placeholder",
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
    """Returns an object without secrets.

    `where` is the name of the node that contains it, empty outside of nodes.
    """
    is_node = "type" in fields and (not where or not _NODE_MARKS.isdisjoint(fields))
    where = _display_name(fields) if is_node else where
    secret_values = _secret_values(fields)
    clean: Json = {}
    for raw_name, value in fields.items():
        name = scrub_text(raw_name, tally, where)
        if raw_name == "credentials" and (is_node or not where):
            if (credentials := _credentials(fields, tally, where)) is not None:
                clean[name] = credentials
        elif raw_name in secret_values or is_secret_name(raw_name):
            clean[name] = _without_value(value, tally, where)
        else:
            clean[name] = _clean(value, tally, where)
    return clean


def _without_value(value: Any, tally: Tally, where: str) -> Any:
    """Returns the value of a secret field with its literal parts replaced by the placeholder."""
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
        tally.drop("secret", "a password, token or key; replaced by a placeholder", where)
    return PLACEHOLDER


def _secret_values(fields: Json) -> frozenset[str]:
    """Returns the fields with a secret value, as told by the name in the same object."""
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


def _display_name(fields: Json) -> str:
    """Returns the name of a node for remarks, without secrets."""
    names = (as_text(fields.get(field)) for field in ("name", "label", "type", "id"))
    return redacted(next(filter(None, names), "")).text


def _credentials(fields: Json, tally: Tally, where: str) -> Json | None:
    """Returns the credentials of an n8n node by type, each reduced to its id and name.

    Those of Node-RED are removed, because they hold the secrets themselves.
    """
    credentials = as_dict(fields.get("credentials"))
    if credentials is None or _N8N_MARKS.isdisjoint(fields):
        if fields.get("credentials"):
            is_n8n = not _N8N_MARKS.isdisjoint(fields)
            reason = (
                "it is not written as n8n writes credentials"
                if is_n8n
                else "secrets are not imported"
            )
            tally.drop("credential", reason, where or "of the file")
        return None
    return {kind: _named(value, tally, f"{where}: {kind}") for kind, value in credentials.items()}


def _named(credential: Any, tally: Tally, where: str) -> Any:
    """Returns the name and id of a credential, which are no secrets."""
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
