"""Names, texts and bodies of functions in PostgreSQL's SQL."""

from __future__ import annotations

import pytest

from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified


def test_quotes_are_doubled() -> None:
    assert quote('or"der') == '"or""der"'
    assert quote_literal("it's") == "'it''s'"
    assert quote_qualified("a.b", "c") == '"a.b"."c"'


@pytest.mark.parametrize("body", ["begin end", "a$$b", "$body$", "ends in $body", "$body$ $body_$", "$"])
def test_a_body_is_between_dollars_that_it_does_not_have(body: str) -> None:
    quoted = quote_body(body)
    tag = quoted[: quoted.index("$", 1) + 1]

    assert quoted == f"{tag}{body}{tag}"
    assert quoted.index(tag, len(tag)) == len(tag) + len(body)
