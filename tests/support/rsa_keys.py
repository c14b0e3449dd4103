"""Two RSA keys that sign tokens; making one takes a tenth of a second."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import rsa

FIRST, SECOND = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
