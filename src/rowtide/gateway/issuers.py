"""The issuer whose JSON Web Tokens a gateway accepts. Light, for the command line."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Option
from rowtide.core.values import frozen

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""All algorithms that may be listed: the asymmetric ones."""


@frozen(kw_only=True)
class IssuerOptions:
    """The issuer and audience of accepted tokens, and the claims that are host_name() and suser_name()."""

    issuer: Annotated[
        str | None, Option("--issuer", metavar="URL", help="Take JSON Web Tokens of users of this issuer, their `iss`.")
    ] = None
    audience: Annotated[
        str | None, Option("--audience", metavar="TEXT", help="--issuer: what tokens have as their `aud`.")
    ] = None
    jwks: Annotated[
        str | None, Option("--jwks", metavar="FILE|URL", help="--issuer: its key set, a file or an https address.")
    ] = None
    host_name_claim: Annotated[
        str | None, Option("--host-name-claim", metavar="NAME", help="--issuer: the claim that is host_name().")
    ] = None
    suser_name_claim: Annotated[
        str | None, Option("--suser-name-claim", metavar="NAME", help="--issuer: the claim that is suser_name().")
    ] = None
    register_for: Annotated[
        str | None,
        Option(
            "--register-for",
            metavar="PUBLICATION",
            help="--issuer: its users register devices for this publication by their tokens, without a code.",
        ),
    ] = None
    device_claim: Annotated[
        str, Option("--device-claim", metavar="NAME", help="--register-for: the claim that is the device's name.")
    ] = "sub"
    algorithms: Annotated[
        tuple[str, ...],
        Option("--algorithm", metavar="NAME", help="--issuer: of signatures that are taken. May be repeated."),
    ] = ("RS256", "ES256", "EdDSA")
