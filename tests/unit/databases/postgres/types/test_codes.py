from __future__ import annotations

import pytest

from rowtide.databases.postgres.types.codes import describe_code


@pytest.mark.parametrize(
    ("code", "modifier", "text"),
    [
        (23, -1, "integer"),
        (1043, -1, "character varying"),
        (1043, 24, "character varying(20)"),
        (1042, 5, "character(1)"),
        (1700, -1, "numeric"),
        (1700, (9 << 16 | 2) + 4, "numeric(9,2)"),
        (1700, (3 << 16 | (-2 & 0x7FF)) + 4, "numeric(3,-2)"),
        (1114, -1, "timestamp without time zone"),
        (1184, 3, "timestamp(3) with time zone"),
        (90001, -1, "type 90001"),
    ],
)
def test_a_type_is_described_as_the_server_would(code: int, modifier: int, text: str) -> None:
    assert describe_code(code, modifier) == text
