from __future__ import annotations

import pytest

from rowtide.core.secrets import redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at postgresql://me:pw@h/db now", "at postgresql://me:***@h/db now"),
        ("postgresql://me:p@w/x?@h/db", "postgresql://me:***@h/db"),
        ("postgresql+psycopg://:pw@h", "postgresql+psycopg://:***@h"),
        ("s3a://key:pw@bucket/lake", "s3a://key:***@bucket/lake"),
        ("postgresql://h/db?password=pw&user=me", "postgresql://h/db?password=***&user=me"),
        (r"host=h password='it\'s' user=me", "host=h password=*** user=me"),
        ("host=h password = pw", "host=h password = ***"),
        ("host=h sslpassword='pw", "host=h sslpassword=***"),
        ("PGPASSWORD=pw rowtide", "PGPASSWORD=*** rowtide"),
        ("postgresql://me@h:5432/db", "postgresql://me@h:5432/db"),
        ("no password here; RT-1101: fact", "no password here; RT-1101: fact"),
    ],
)
def test_passwords_in_text_are_masked(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown
