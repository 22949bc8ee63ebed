"""JSON Web Tokens of an issuer of the tests, and its key set in a file."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from jwt.algorithms import ECAlgorithm

from rowtide.gateway.issuers import IssuerOptions

ISSUER, AUDIENCE = "https://login.example", "rowtide"


@dataclass
class TokenIssuer:
    """Signs tokens; its public keys are in a file."""

    path: Path
    keys: dict[str, EllipticCurvePrivateKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.add_key("first")

    def add_key(self, name: str) -> None:
        """Have another key."""
        self.keys[name] = generate_private_key(SECP256R1())
        self.write()

    def write(self) -> None:
        """Write the key set."""
        listed = [
            json.loads(ECAlgorithm.to_jwk(key.public_key())) | {"kid": name, "use": "sig"}
            for name, key in self.keys.items()
        ]
        self.path.write_text(json.dumps({"keys": listed}))

    @property
    def options(self) -> IssuerOptions:
        return IssuerOptions(
            issuer=ISSUER, audience=AUDIENCE, jwks=str(self.path), host_name_claim="region", algorithms=("ES256",)
        )

    def sign(self, region: str | None = "north", *, key: str = "first", age_s: float = 0.0, **claims: Any) -> str:
        """Return a token, issued some time ago; a claim that is None is left out."""
        issued = int(time.time() - age_s)
        said = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ann",
            "iat": issued,
            "exp": issued + 3600,
            "region": region,
            **claims,
        }
        given = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(given, self.keys[key], "ES256", {"kid": key})
