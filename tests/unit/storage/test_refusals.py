"""What an object store refuses is said in a sentence with its mend, at once, and never as the store's XML."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from builders.servers.http_servers import Refusing, serving
from builders.servers.object_servers import KEYS
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.lake.stores import open_folder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.refusals import describe_failure, find_refusal

REFUSED = {
    "InvalidAccessKeyId": (403, "does not take the key"),
    "SignatureDoesNotMatch": (403, "does not take the key"),
    "ExpiredToken": (400, "the credentials have expired"),
    "RequestTimeTooSkewed": (403, "the clock of this machine"),
    "AccessDenied": (403, "no right to do this"),
    "NoSuchBucket": (404, "no .*bucket"),
    "AuthorizationHeaderMalformed": (400, "another region"),
    "PermanentRedirect": (301, "another region"),
}
CALLS: dict[str, Callable[[ObjectFolder], object]] = {
    "get": lambda folder: folder.get("a"),
    "list": lambda folder: folder.list(""),
    "put": lambda folder: folder.put_durable("a", b"1"),
    "put_if_absent": lambda folder: folder.put_if_absent("a", b"1"),
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectFolder]:
    with serving(Refusing) as endpoint:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}.items():
            monkeypatch.setenv(name, value)
        opened = open_folder("s3://b/x")
        assert isinstance(opened, ObjectFolder)
        yield opened


@pytest.mark.parametrize("code", REFUSED)
@pytest.mark.parametrize("call", CALLS)
def test_each_refusal_has_its_sentence(
    folder: ObjectFolder, call: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, sentence = REFUSED[code]
    monkeypatch.setattr(Refusing, "code", code)
    monkeypatch.setattr(Refusing, "status", status)
    monkeypatch.setattr(Refusing, "requests", 0)

    with pytest.raises((LakeReadFailed, LakeWriteFailed), match=sentence) as raised:
        CALLS[call](folder)

    assert "<" not in str(raised.value)
    assert Refusing.requests == 1


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("Server returned non-2xx status code: 403 Forbidden: ", "the store forbids it"),
        ("Server returned non-2xx status code: 503 Service Unavailable: \n", "asks for fewer requests"),
        ('status code: 401 Unauthorized: {"error": {"code": 401}}', "the store forbids it"),
        (
            "status code: 403 Forbidden: <Error><Code>AuthorizationPermissionMismatch</Code></Error>",
            "no right to do this",
        ),
        ("status code: 404 Not Found: <Error><Code>ContainerNotFound</Code></Error>", "no such bucket"),
    ],
)
def test_what_other_stores_say_is_understood(said: str, sentence: str) -> None:
    assert sentence in describe_failure(said)


@pytest.mark.parametrize(
    ("said", "described"),
    [
        ("status code: 400 Bad Request: <?xml version='1.0'?>\n<Error><Code>Odd</Code></Error>", "Odd"),
        ("error sending request\n\nDebug source: ...", "error sending request"),
    ],
)
def test_other_failures_are_one_line_without_xml(said: str, described: str) -> None:
    assert find_refusal(said) is None
    assert described in describe_failure(said)
    assert not {"<", "\n"} & set(describe_failure(said))


def test_a_missing_file_is_no_refusal() -> None:
    assert find_refusal("status code: 404 Not Found: <Error><Code>NoSuchKey</Code></Error>") is None
