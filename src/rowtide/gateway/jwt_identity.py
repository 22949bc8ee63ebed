"""JSON Web Tokens of an issuer: they identify a device's user and its partition.

Only asymmetric algorithms are accepted: otherwise a token signed by HMAC, with a key of the public key set as its
secret, would be valid. The key set is read again when a token names an unknown key.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import jwt

from rowtide.core.values import frozen
from rowtide.gateway.errors import (
    AlgorithmRefused,
    ClaimMissing,
    ClaimsOlder,
    DeviceClaimMissing,
    IssuerIncomplete,
    JwtRefused,
    KeySetNotRead,
    RegistrationNeedsCode,
)
from rowtide.gateway.issuers import ALGORITHMS, IssuerOptions
from rowtide.merge.articles import Partition
from rowtide.merge.devices.registered import KnownDevice, NamedDevice

SKEW_S = 60.0
"""Tolerated difference between the clocks of issuer and gateway."""
_READ_AGAIN_S = 10.0
"""The least time between two reads of a key set, whatever keys tokens name."""
_OLDEST_S = 3600.0
"""A key set that is older is read again before use, so that withdrawn keys stop being accepted."""
_TIMEOUT_S = 5.0
_MOST_BYTES = 1 << 20
"""Limit of a key set's size: the address may answer with anything."""
_LONGEST_TOKEN = 16_384
"""Longer tokens are refused before they are parsed, which happens before they are known to be valid."""


@frozen
class Claims:
    """The contents of a valid token: subject, values of the filter functions, time of issue, and device.

    `device` is None if the token has no text as the claim that names it.
    """

    subject: str
    partition: Partition
    issued: datetime
    device: str | None = None


class SigningKeys:
    """The public keys of an issuer, from a file or an address; read again when a token names an unknown key."""

    def __init__(self, place: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._place = place
        self._clock = clock
        self._keys: Mapping[str | None, jwt.PyJWK] = {}
        self._read_at: float | None = None
        self._failed: tuple[float, KeySetNotRead] | None = None
        self._lock = threading.Lock()

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return a key; None if the issuer has none of that ID. Raises `KeySetNotRead`."""
        with self._lock:
            age_s = None if self._read_at is None else self._clock() - self._read_at
            is_due = age_s is None or age_s > _OLDEST_S or (key_id not in self._keys and age_s > _READ_AGAIN_S)
            if is_due:
                self._read_again()
            if key_id is None and len(self._keys) == 1:
                return next(iter(self._keys.values()))
            return self._keys.get(key_id)

    def _read_again(self) -> None:
        """Read the key set, unless that has just failed: each attempt may take seconds, of all threads that wait."""
        if self._failed is not None and self._clock() - self._failed[0] <= _READ_AGAIN_S:
            raise self._failed[1]
        try:
            self._keys, self._read_at, self._failed = self._read(), self._clock(), None
        except KeySetNotRead as error:
            self._failed = self._clock(), error
            raise

    def _read(self) -> Mapping[str | None, jwt.PyJWK]:
        try:
            document = json.loads(self._read_text())
            listed = document["keys"]
            return {one.key_id: one for one in map(_usable, listed) if one is not None}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise KeySetNotRead(self._place, getattr(error, "strerror", None) or str(error)) from error

    def _read_text(self) -> bytes:
        if "://" not in self._place:
            with open(self._place, "rb") as file:
                return file.read(_MOST_BYTES)
        if not self._place.startswith(("https://", "http://127.0.0.1", "http://localhost", "http://[::1]")):
            raise ValueError("it is no https address")
        with urllib.request.urlopen(self._place, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the schemes above
            found: bytes = answer.read(_MOST_BYTES)
            return found


def _usable(listed: Mapping[str, Any]) -> jwt.PyJWK | None:
    """Return a public key for signatures; None for a key of another use or kind, such as a secret."""
    if listed.get("use", "sig") != "sig" or listed.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    try:
        return jwt.PyJWK.from_dict(dict(listed))
    except jwt.PyJWTError:
        return None


class Issuer:
    """Verifies tokens of an issuer."""

    def __init__(self, options: IssuerOptions, keys: SigningKeys | None = None) -> None:
        self._options = options
        self._keys = keys or SigningKeys(options.jwks or "")

    def read(self, token: str) -> Claims:
        """Verify a token and return its contents. Raises `JwtRefused`, `ClaimMissing`, `KeySetNotRead`."""
        options = self._options
        try:
            if len(token) > _LONGEST_TOKEN:
                raise jwt.DecodeError("it is too long")
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            # Checked before any key is used; the list never contains "none" or an HMAC.
            if algorithm not in options.algorithms or algorithm not in ALGORITHMS:
                raise jwt.InvalidAlgorithmError("its algorithm is not listed")
            key = self._keys.find(key_id if isinstance(key_id, str) else None)
            if key is None:
                raise jwt.InvalidKeyError("the issuer has no such key")
            if key.algorithm_name != algorithm and key.key_type != _KEY_TYPES[algorithm[:2]]:
                raise jwt.InvalidAlgorithmError("its key is of another algorithm")
            said = jwt.decode(
                token,
                key=key.key,
                algorithms=[algorithm],
                audience=options.audience,
                issuer=options.issuer,
                leeway=SKEW_S,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except jwt.PyJWTError as error:
            # PyJWT's messages name claims, without their values.
            raise JwtRefused(_reason(error)) from None
        try:
            issued = datetime.fromtimestamp(int(said["iat"]), UTC)
        except (OverflowError, ValueError, OSError) as error:
            raise JwtRefused("its claim iat is no time") from error
        device = said.get(options.device_claim)
        named = device if isinstance(device, str) else None
        return Claims(str(said["sub"]), self._partition_of(said), issued, named)

    def name_device(self, claims: Claims) -> NamedDevice:
        """Return the device that a token registers. Raises `RegistrationNeedsCode`, `DeviceClaimMissing`."""
        if self._options.register_for is None:
            raise RegistrationNeedsCode
        if claims.device is None:
            raise DeviceClaimMissing(self._options.device_claim)
        return NamedDevice(claims.device, f"{self._options.issuer}\n{claims.device}", self._options.register_for)

    def _partition_of(self, said: Mapping[str, Any]) -> Partition:
        values = {}
        for function, claim in (
            ("host_name", self._options.host_name_claim),
            ("suser_name", self._options.suser_name_claim),
        ):
            value = None if claim is None else said.get(claim)
            if claim is not None and not isinstance(value, str):
                raise ClaimMissing(claim, function)
            values[function] = value
        return Partition(**values)


_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def _reason(error: jwt.PyJWTError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "it has expired"
        case jwt.InvalidAudienceError():
            return "it is for another audience"
        case jwt.InvalidIssuerError():
            return "it is of another issuer"
        case jwt.ImmatureSignatureError():
            return "it is not valid yet"
        case jwt.MissingRequiredClaimError():
            return f"it has no claim {error.claim}"
        case jwt.InvalidSignatureError():
            return "its signature is wrong"
        case jwt.InvalidAlgorithmError() | jwt.InvalidKeyError():
            return str(error)
        case _:
            return "it is malformed"


def make_issuer(options: IssuerOptions) -> Issuer | None:
    """Return the issuer whose tokens are accepted; None where devices have no users of their own.

    Raises `IssuerIncomplete`, `AlgorithmRefused`, `KeySetNotRead`.
    """
    if options.issuer is None:
        return None
    if options.audience is None or options.jwks is None:
        raise IssuerIncomplete("--audience" if options.audience is None else "--jwks")
    if unknown := set(options.algorithms) - set(ALGORITHMS):
        raise AlgorithmRefused(min(unknown), ", ".join(ALGORITHMS))
    keys = SigningKeys(options.jwks)
    keys.find(None)
    return Issuer(options, keys)


def must_move(device: KnownDevice, claims: Claims, recorded: Partition) -> bool:
    """Return whether a device is to move to the partition of its user's claims.

    If two tokens are valid at a time, the later one counts: one issued before the last move is refused if its claims
    differ. Raises `ClaimsOlder`.
    """
    if claims.partition == recorded:
        return False
    if device.claims_issued is not None and claims.issued <= device.claims_issued:
        raise ClaimsOlder(device.name, f"{claims.issued:%Y-%m-%d %H:%M:%S} UTC")
    return True
