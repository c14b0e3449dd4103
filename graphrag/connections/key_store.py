"""Where the keys of connections are kept: in the environment, or encrypted in the record.

A sealed key is encrypted with a key that is derived from the service's secret
(NODIUS_AUTH_SECRET), so a copy of the database opens no server.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken

from graphrag.connections.errors import ConnectionRefused
from graphrag.connections.stored_connection import ServerConnection

_PURPOSE = b"nodius connection keys"


class KeyStore:
    """Seals and opens the keys of connections. `secret` is the service's, None where it has
    none.
    """

    def __init__(self, secret: str | None, environment: Mapping[str, str] = os.environ) -> None:
        self._secret = secret
        self._environment = environment

    def seal(self, key: str) -> str:
        """Returns a key, or another text with secrets, encrypted.

        Raises: ConnectionRefused without a secret.
        """
        return self._fernet().encrypt(key.encode()).decode()

    def key_of(self, connection: ServerConnection) -> str:
        """Returns the key of a connection, "" where it has none. Raises: ConnectionRefused."""
        variable = connection.key_variable
        if variable is not None:
            key = self._environment.get(variable, "").strip()
            if not key:
                raise ConnectionRefused("connection_variable_empty", variable=variable)
            return key
        if connection.sealed_key is None:
            return ""
        try:
            return self._decrypted(connection.sealed_key)
        except InvalidToken:
            raise ConnectionRefused("connection_key_unreadable", name=connection.key) from None

    def opened(self, sealed: str) -> str:
        """Returns a text that `seal` encrypted. Raises: ConnectionRefused."""
        try:
            return self._decrypted(sealed)
        except InvalidToken:
            raise ConnectionRefused("push_undo_gone") from None

    def _decrypted(self, sealed: str) -> str:
        return self._fernet().decrypt(sealed.encode()).decode()

    def _fernet(self) -> Fernet:
        if self._secret is None:
            raise ConnectionRefused("connection_secret_missing")
        derived = hashlib.blake2b(self._secret.encode(), digest_size=32, person=_PURPOSE[:16])
        return Fernet(base64.urlsafe_b64encode(derived.digest()))
