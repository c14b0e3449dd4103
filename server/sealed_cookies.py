"""Cookies that only this service can read or write, and every server of the same secret."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import Any, TypeVar

import orjson
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

T = TypeVar("T")


class SealedCookies:
    """Encrypts and signs what a cookie holds, a dataclass, with a key of its own for each class."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def _box(self, kind: str) -> Fernet:
        info = f"nodius cookie {kind}".encode()
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._secret)
        return Fernet(base64.urlsafe_b64encode(key))

    def seal(self, value: Any) -> str:
        """Return what a dataclass is stored as."""
        return self._box(type(value).__name__).encrypt(orjson.dumps(value)).decode()

    def open(self, kind: type[T], sealed: str, *, within_s: int | None = None) -> T | None:
        """Return what was sealed; None where it was not by us, not as this kind, or longer ago."""
        try:
            found: Any = orjson.loads(self._box(kind.__name__).decrypt(sealed.encode(), ttl=within_s))
            known = {field.name for field in fields(kind)}  # pyright: ignore[reportArgumentType]
            return kind(**{name: value for name, value in found.items() if name in known})
        except (InvalidToken, UnicodeError, TypeError):
            return None
