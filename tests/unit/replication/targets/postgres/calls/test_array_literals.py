"""Values as an array's text: what could be taken for the array's own signs is not."""

from __future__ import annotations

import pytest

from rowtide.replication.targets.postgres.calls.procedures import array_literal


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([b"1"], b'{"1"}'),
        ([b"1", b"2"], b'{"1","2"}'),
        ([None], b"{NULL}"),
        ([None, None, b"", None], b'{NULL,NULL,"",NULL}'),
        ([b"NULL", b"null"], b'{"NULL","null"}'),
        ([b'a"b', b"a\\b", b'\\"', b'"'], rb'{"a\"b","a\\b","\\\"","\""}'),
        ([b'"NULL"', b"n", b",", b",n"], rb'{"\"NULL\"","n",",",",n"}'),
        ([b"\\x00ff"], rb'{"\\x00ff"}'),
        ([b"{1,2}", b" a ", b"\n\t\x01"], b'{"{1,2}"," a ","\n\t\x01"}'),
        (["ä\u20ac".encode()], '{"ä€"}'.encode()),
    ],
)
def test_the_text_of_an_array(values: list[bytes | None], text: bytes) -> None:
    assert array_literal(values) == text
