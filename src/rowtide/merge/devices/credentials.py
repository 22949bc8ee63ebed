"""Registration codes and tokens of devices: how they are made and read, and what is stored of them. Pure.

Both name their device, so that it is looked up by what is no secret, and its secret is compared in constant time. Only
digests are stored: the secrets are random, so that a plain SHA-256 cannot be reversed by guessing.

The token is computed of the code and the key of the request that exchanges it. A device that has lost the answer
repeats its request, and gets the same token; anybody else who has the code lacks the key.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64encode

from rowtide.core.values import frozen

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32: none of its characters is taken for another one when a code is read aloud."""
CODE_HOURS = 7 * 24.0
"""How long a registration code is valid."""
ID_LENGTH = 10
_CODE_SECRET_LENGTH = 15
_GROUP = 5
SHORTEST_KEY = 16
"""A shorter key of a request could be guessed by somebody who has the code."""
_TOKEN = re.compile(r"rtd_([0-9A-HJKMNP-TV-Z]{10})_([A-Za-z0-9_-]{43})")
BEHIND_GATEWAY = "device:"
"""The prefix of the addresses of subscriptions whose subscribers were created by a gateway."""
_LOOKS_LIKE = str.maketrans({"O": "0", "I": "1", "L": "1"})


@frozen
class Credential:
    """What a device shows: its ID, which is no secret, and its secret."""

    device_id: str
    secret: str

    def __repr__(self) -> str:
        return f"Credential({self.device_id!r})"

    @property
    def digest(self) -> str:
        """What is stored of the secret."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    @property
    def as_code(self) -> str:
        """The registration code, in groups as it is read aloud."""
        whole = self.device_id + self.secret
        return "-".join(whole[start : start + _GROUP] for start in range(0, len(whole), _GROUP))

    @property
    def as_token(self) -> str:
        """The token, as it is sent."""
        return f"rtd_{self.device_id}_{self.secret}"


def is_behind_gateway(subscriber: str) -> bool:
    """Whether a subscription is of a device behind a gateway: nothing else reaches it."""
    return subscriber.startswith(BEHIND_GATEWAY)


def device_id_of(identity: str) -> str:
    """Return the ID of a device that another system identifies: always the same one."""
    number = int.from_bytes(hashlib.sha256(identity.encode()).digest())
    return "".join(ALPHABET[(number >> (5 * place)) % len(ALPHABET)] for place in range(ID_LENGTH))


def new_device_id() -> str:
    """Return the ID of a new device."""
    return _random_text(ID_LENGTH)


def new_code(device_id: str) -> Credential:
    """Return a new registration code: 75 random bits, of which the digest is stored for some days."""
    return Credential(device_id, _random_text(_CODE_SECRET_LENGTH))


def read_code(text: str) -> Credential | None:
    """Parse a code as a person typed it; None if it is none."""
    plain = re.sub(r"[\s-]", "", text).upper().translate(_LOOKS_LIKE)
    if len(plain) != ID_LENGTH + _CODE_SECRET_LENGTH or not set(plain) <= set(ALPHABET):
        return None
    return Credential(plain[:ID_LENGTH], plain[ID_LENGTH:])


def read_token(text: str) -> Credential | None:
    """Parse a token as it was sent; None if it is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else Credential(found[1], found[2])


def token_for(code: Credential, key: str) -> Credential:
    """Return the token for which a code is exchanged by the request that has a key."""
    made = hmac.digest(code.secret.encode(), b"rowtide token\0" + key.encode(), "sha256")
    return Credential(code.device_id, urlsafe_b64encode(made).decode().rstrip("="))


def is_of(given: Credential, digest: str | None) -> bool:
    """Whether a stored digest is a secret's; in constant time, also if nothing is stored."""
    return hmac.compare_digest(given.digest, digest or "0" * 64) and digest is not None


def _random_text(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))
