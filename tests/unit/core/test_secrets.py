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
        (
            "abfss://c@a.dfs.core.windows.net/l?sv=1&sig=pw%3D&se=2",
            "abfss://c@a.dfs.core.windows.net/l?sv=1&sig=***&se=2",
        ),
        ("hdfs://me:pw@name:9000/lake", "hdfs://me:***@name:9000/lake"),
        (
            "https://b.s3/x?X-Amz-Credential=pw&X-Amz-Signature=pw",
            "https://b.s3/x?X-Amz-Credential=***&X-Amz-Signature=***",
        ),
        ("--conf spark.hadoop.fs.s3a.secret.key=pw --name a", "--conf spark.hadoop.fs.s3a.secret.key=*** --name a"),
        ("spark.sql.catalog.c.s3.secret-access-key=pw", "spark.sql.catalog.c.s3.secret-access-key=***"),
        ("fs.azure.account.key.a.dfs.core.windows.net: pw,", "fs.azure.account.key.a.dfs.core.windows.net: ***,"),
        ("{'fs.s3a.session.token': 'pw', 'a': 1}", "{'fs.s3a.session.token': ***, 'a': 1}"),
        ("AWS_SECRET_ACCESS_KEY=pw", "AWS_SECRET_ACCESS_KEY=***"),
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
