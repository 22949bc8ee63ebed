"""JSON Web Tokens, good and made up."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm

from builders.gateway.signed_tokens import AUDIENCE, ISSUER, TokenIssuer
from rowtide.gateway import jwt_identity
from rowtide.gateway.errors import (
    AlgorithmRefused,
    ClaimMissing,
    IssuerIncomplete,
    JwtRefused,
    KeySetNotRead,
)
from rowtide.gateway.issuers import IssuerOptions
from rowtide.gateway.jwt_identity import Issuer, SigningKeys, make_issuer
from rowtide.merge.articles import Partition


@pytest.fixture
def signing(tmp_path: Path) -> TokenIssuer:
    return TokenIssuer(tmp_path / "keys.json")


def judge(signing: TokenIssuer) -> Issuer:
    made = make_issuer(signing.options)
    assert made is not None
    return made


def test_claims_are_read(signing: TokenIssuer) -> None:
    claims = judge(signing).read(signing.sign("north"))
    assert (claims.subject, claims.partition) == ("ann", Partition("north", None))
    assert abs(claims.issued.timestamp() - time.time()) < 5


def without_signature(signing: TokenIssuer) -> str:
    head = encoded({"alg": "none", "typ": "JWT"})
    return f"{head}.{signing.sign().split('.')[1]}."


def signed_with_the_public_key(signing: TokenIssuer) -> str:
    """Return a token whose secret is what everybody knows."""
    public = signing.keys["first"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = encoded({"alg": "HS256", "typ": "JWT", "kid": "first"})
    signed = f"{head}.{signing.sign('south').split('.')[1]}"
    digest = hmac.digest(public, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def encoded(said: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=").decode()


def altered(signing: TokenIssuer) -> str:
    head, body, signature = signing.sign("north").split(".")
    said = json.loads(base64.urlsafe_b64decode(body + "==")) | {"region": "south"}
    return f"{head}.{encoded(said)}.{signature}"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (without_signature, "its algorithm is not listed"),
        (signed_with_the_public_key, "its algorithm is not listed"),
        (altered, "its signature is wrong"),
        (lambda signing: signing.sign(age_s=3700), "it has expired"),
        (lambda signing: signing.sign(iat=int(time.time()) + 600, nbf=int(time.time()) + 600), "it is not valid yet"),
        (lambda signing: signing.sign(aud="other"), "it is for another audience"),
        (lambda signing: signing.sign(iss="https://evil.example"), "it is of another issuer"),
        (lambda signing: signing.sign(sub=None), "it has no claim sub"),
        (lambda signing: signing.sign(exp=None), "it has no claim exp"),
        (lambda _signing: "no.token.", "it is malformed"),
        (lambda _signing: "x" * 20_000, "it is malformed"),
    ],
)
def test_a_token_that_does_not_hold_is_refused(
    signing: TokenIssuer, token: Callable[[TokenIssuer], str], reason: str
) -> None:
    with pytest.raises(JwtRefused, match=reason):
        judge(signing).read(token(signing))


def test_clocks_may_differ_by_a_minute(signing: TokenIssuer) -> None:
    issuer = judge(signing)
    issuer.read(signing.sign(age_s=3650))
    issuer.read(signing.sign(age_s=-50))


def test_a_claim_that_is_missing_is_named(signing: TokenIssuer) -> None:
    for region in (None, 5):
        with pytest.raises(ClaimMissing, match="claim region"):
            judge(signing).read(signing.sign(region))  # type: ignore[arg-type]


def test_keys_are_rotated_without_a_restart(signing: TokenIssuer) -> None:
    now = [0.0]
    issuer = Issuer(signing.options, SigningKeys(str(signing.path), lambda: now[0]))
    issuer.read(signing.sign())
    signing.add_key("second")
    with pytest.raises(JwtRefused, match="no such key"):
        issuer.read(signing.sign(key="second"))
    now[0] = 11.0
    issuer.read(signing.sign(key="second"))
    del signing.keys["first"]
    signing.write()
    token = signing.sign(key="second")
    now[0] = 4000.0
    issuer.read(token)
    with pytest.raises(JwtRefused, match="no such key"):
        issuer.read(without_key_file(signing))


def without_key_file(signing: TokenIssuer) -> str:
    """Return a token signed by a key that was withdrawn."""
    signing.keys["first"] = TokenIssuer(signing.path.with_name("other.json")).keys["first"]
    return signing.sign(key="first")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"keys": 5}', None])
def test_a_key_set_that_cannot_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KeySetNotRead, match=r"keys\.json"):
        SigningKeys(str(path)).find("x")


def test_a_key_set_comes_by_https_alone() -> None:
    with pytest.raises(KeySetNotRead, match="no https address"):
        SigningKeys("http://keys.example/jwks").find("x")


def test_an_issuer_needs_all_that_tokens_are_judged_by() -> None:
    assert make_issuer(IssuerOptions()) is None
    with pytest.raises(IssuerIncomplete, match="--audience"):
        make_issuer(IssuerOptions(issuer=ISSUER))
    with pytest.raises(IssuerIncomplete, match="--jwks"):
        make_issuer(IssuerOptions(issuer=ISSUER, audience=AUDIENCE))
    with pytest.raises(AlgorithmRefused):
        make_issuer(IssuerOptions(issuer=ISSUER, audience=AUDIENCE, jwks="x", algorithms=("HS256",)))


def test_an_issuer_that_does_not_answer_is_asked_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt takes seconds, in which threads wait that other devices need."""
    monkeypatch.setattr(jwt_identity, "_TIMEOUT_S", 0.05)
    now, attempts = [0.0], []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(0)
        keys = SigningKeys(f"http://127.0.0.1:{silent.getsockname()[1]}/jwks", lambda: now[0])
        for now[0] in (0.0, 1.0, 9.0, 11.0, 12.0):
            with pytest.raises(KeySetNotRead, match="timed out"):
                keys.find("first")
            with suppress(BlockingIOError):
                silent.accept()[0].close()
                attempts.append(now[0])
    assert attempts == [0.0, 11.0]
    path = tmp_path / "keys.json"
    late = SigningKeys(str(path), lambda: now[0])
    with pytest.raises(KeySetNotRead):
        late.find("first")
    TokenIssuer(path)
    now[0] += 11
    assert late.find("first") is not None


_NOW = int(time.time())
_GOOD: dict[str, object] = {
    "iss": ISSUER,
    "aud": AUDIENCE,
    "sub": "ann",
    "iat": _NOW,
    "exp": _NOW + 3600,
    "region": "north",
}
_HEAD: dict[str, object] = {"alg": "ES256", "typ": "JWT", "kid": "first"}


def signed(signing: TokenIssuer, head: object, body: object) -> str:
    """Return a token of any head and body, as texts or as documents, that the issuer's key has signed."""
    parts = (part.encode() if isinstance(part, str) else json.dumps(part).encode() for part in (head, body))
    whole = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    algorithm = ECAlgorithm(ECAlgorithm.SHA256)
    signature = algorithm.sign(whole, signing.keys["first"])
    return f"{whole.decode()}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def with_time(claim: str, written: str) -> str:
    """Return claims with a time that Python's JSON would not write."""
    return json.dumps(_GOOD | {claim: "TIME"}).replace('"TIME"', written)


def test_what_a_signed_token_says_besides_opens_nothing(signing: TokenIssuer) -> None:
    """Addresses of keys are not asked, nor keys taken out of a token; what a head calls critical is not known."""
    issuer = judge(signing)
    others: tuple[dict[str, object], ...] = (
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/certificate"},
        {"jwk": {"kty": "oct", "k": "c2VjcmV0"}},
    )
    for other in others:
        assert issuer.read(signed(signing, _HEAD | other, _GOOD)).subject == "ann"
    refused: list[object] = [
        _HEAD | {"crit": ["b64"], "b64": False},
        _HEAD | {"crit": ["made-up"], "made-up": 1},
        _HEAD | {"crit": []},
        *(_HEAD | {"kid": key} for key in ("../../../../dev/null", "first' or '1'='1", ["first"], 5)),
        *(_HEAD | {"alg": other} for other in (None, "nOnE", "RS256", "HS256", ["ES256"], {"x": 1})),
        "[]",
        "[" * 6000,
    ]
    for head in refused:
        with pytest.raises(JwtRefused, match="malformed|no such key|algorithm"):
            issuer.read(signed(signing, head, _GOOD))


def test_claims_that_are_no_claims_are_refused(signing: TokenIssuer) -> None:
    issuer = judge(signing)
    refused: list[object] = [
        *(with_time("exp", written) for written in ("1e999", "NaN", "-1e999", '"x"', "null", "[1]", "true")),
        *(with_time("iat", written) for written in ("1e999", "NaN", "-99999999999999", "9" * 5000, "[]", "1e30")),
        *(with_time("nbf", written) for written in ("1e999", "NaN", "[]", "{}", str(_NOW + 600))),
        *(_GOOD | {"aud": audience} for audience in (["other"], [1], {AUDIENCE: 1}, [], "")),
        *(_GOOD | {"iss": other} for other in ([ISSUER], None, f"{ISSUER}/", 5)),
        *(_GOOD | {"sub": other} for other in (5, None, ["ann"])),
        "[]",
        '"text"',
        "[" * 6000,
    ]
    for body in refused:
        with pytest.raises(JwtRefused, match="the JSON Web Token is refused"):
            issuer.read(signed(signing, _HEAD, body))
    assert issuer.read(signed(signing, _HEAD, _GOOD | {"aud": ["other", AUDIENCE]})).subject == "ann"
    assert issuer.read(signed(signing, _HEAD, with_time("exp", "1" + "0" * 30))).subject == "ann"
    assert issuer.read(signed(signing, _HEAD, _GOOD | {"nbf": _NOW + 50})).subject == "ann"
