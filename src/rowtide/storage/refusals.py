"""Reasons for which object stores refuse requests, each with what to do. Pure.

Stores send a code in XML or JSON, which clients put into a text; a refused HEAD has only the HTTP status. The codes are
from the documentation of Amazon S3, Cloud Storage and Azure Blob Storage.
"""

from __future__ import annotations

import re

from rowtide.core.redaction import redact
from rowtide.core.values import frozen


@frozen
class StoreRefusal:
    """A reason for which stores refuse requests. `passes`: the same request may succeed a little later."""

    codes: frozenset[str]
    sentence: str
    passes: bool = False


_OF_SECRETS = StoreRefusal(
    frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed", "InvalidToken", "AuthFailure"}),
    "the store does not take the key: it does not know it, or the secret is another one. Set the credentials in the "
    "environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3",
)
_EXPIRED = StoreRefusal(
    frozenset({"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"}),
    "the credentials have expired. Start rowtide with new ones, or with a profile or role that renews them",
)
_SKEWED = StoreRefusal(
    frozenset({"RequestTimeTooSkewed", "RequestExpired"}),
    "the clock of this machine differs too much from the store's. Set it, for instance by NTP",
)
_DENIED = StoreRefusal(
    frozenset({"AccessDenied", "AllAccessDisabled", "AuthorizationPermissionMismatch", "AuthorizationFailure"}),
    "the credentials have no right to do this. Allow them to list, read, write and delete objects of the bucket",
)
_FORBIDDEN = StoreRefusal(
    frozenset({"401", "403"}),
    "the store forbids it: the credentials are wrong, or have no right to do this. Set them in the environment, or "
    "allow them to list, read, write and delete objects of the bucket",
)
_BUSY = StoreRefusal(
    frozenset({"SlowDown", "ServerBusy", "TooManyRequests", "Throttling", "RequestLimitExceeded", "429", "503"}),
    "the store asks for fewer requests. Let fewer programs use the bucket at once, or raise its limit",
    passes=True,
)
_NO_BUCKET = StoreRefusal(
    frozenset({"NoSuchBucket", "ContainerNotFound", "InvalidBucketName"}),
    "there is no such bucket. Create it, or correct the URL",
)
_ELSEWHERE = StoreRefusal(
    frozenset({"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}),
    "the bucket is in another region than the one that is asked. Set AWS_REGION to the bucket's",
)
_REFUSALS = (_OF_SECRETS, _EXPIRED, _SKEWED, _DENIED, _BUSY, _NO_BUCKET, _ELSEWHERE, _FORBIDDEN)

_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>|\"(?:code|reason)\":\s*\"?(\w+)")
_STATUS = re.compile(r"status code: (\d{3})[^:\n]*")
_REDIRECTED = "redirect without LOCATION"
_BODY = re.compile(r": *(<\?xml|<Error|<html|\{).*", re.DOTALL | re.IGNORECASE)


def find_refusal(said: str) -> StoreRefusal | None:
    """Return why a request was refused, from the client's error; None if the reason is not in the list."""
    if _REDIRECTED in said:
        return _ELSEWHERE
    named = [code for found in _CODE.findall(said) for code in found if code]
    # A code is more specific than the status.
    for code in (*named, *_STATUS.findall(said)):
        for refusal in _REFUSALS:
            if code in refusal.codes:
                return refusal
    return None


def describe_failure(said: str) -> str:
    """Return in a line what went wrong, without the store's XML, the request's details and secrets."""
    refusal = find_refusal(said)
    if refusal is not None:
        return refusal.sentence
    code = next((code for found in _CODE.findall(said) for code in found if code), None)
    first = _BODY.sub("", said.strip().partition("\n")[0])
    return redact(first if code is None else f"{first} ({code})")
