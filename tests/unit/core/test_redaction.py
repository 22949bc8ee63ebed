from __future__ import annotations

import pickle

import pytest

from rowtide.core.errors import RowtideError, describe
from rowtide.core.lsn import CommitLsn
from rowtide.core.redaction import are_hidden, hiding, hiding_alike, redact, shown, shown_key
from rowtide.databases.postgres.errors import UnexpectedSqlError
from rowtide.replication.errors.delivery import CommandRefused, RowNotFound

SECRET = "s3cret"


def missing() -> RowNotFound:
    return RowNotFound(CommitLsn(1), 1, "public.t", f"id = {SECRET}", "update")


def test_an_error_made_while_keys_are_hidden_has_none_for_good() -> None:
    with hiding(wanted=True):
        error = missing()
    assert not are_hidden()
    assert "with key *** of public.t" in str(error)
    assert SECRET not in str(pickle.loads(pickle.dumps(error)))
    assert SECRET in str(missing())


WHOLE = (
    'duplicate key value violates unique constraint "t_pkey"',
    'null value in column "a" of relation "t" violates not-null constraint',
    "value too long for type character varying(3)",
    "UNIQUE constraint failed: t.id",
    "***",
)
IN_PART = {
    "CHECK constraint failed: note <> 's3cret'": "CHECK constraint failed",
    "its parent in public.p, s3cret, is not at the publisher": "its parent in public.p",
    'null value in column "a" violates not-null constraint DETAIL: Failing row contains (s3cret).': (
        'null value in column "a" violates not-null constraint'
    ),
}
NOT_AT_ALL = ('invalid input syntax for type integer: "s3cret"', "refused s3cret", "")


@pytest.mark.parametrize(
    ("said", "is_shown"),
    [*((said, said) for said in WHOLE), *IN_PART.items(), *((said, "***") for said in NOT_AT_ALL)],
)
def test_of_a_message_is_shown_what_quotes_no_value(said: str, is_shown: str) -> None:
    assert shown(said) == said
    with hiding(wanted=True):
        assert shown(said) == is_shown
        assert shown(shown(said)) == is_shown
        error = CommandRefused(CommitLsn(1), 1, "public.t", SECRET, "insert", "23505", said)
    assert SECRET not in str(error)


def fail() -> None:
    try:
        int(SECRET)
    except ValueError as error:
        raise UnexpectedSqlError("22P02", SECRET) from error


def test_an_error_of_ours_leaves_without_what_caused_it() -> None:
    with pytest.raises(RowtideError) as raised, hiding(wanted=True):
        fail()
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


def test_runs_beside_each_other_hide_until_the_last_has_ended() -> None:
    with hiding(wanted=True):
        with hiding(wanted=True), hiding(wanted=False):
            assert shown_key(SECRET) == "***"
        assert shown_key(SECRET) == "***"
    assert shown_key(SECRET) == SECRET


def test_what_the_environment_hides_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWTIDE_HIDE_KEYS", "1")
    with hiding(wanted=True):
        pass
    assert are_hidden()


def test_work_elsewhere_hides_as_here() -> None:
    with hiding(wanted=True):
        hidden = hiding_alike(lambda number: shown_key(f"{SECRET}{number}"))
    assert not are_hidden()
    assert hidden(1) == "***"
    assert hiding_alike(lambda number: shown_key(f"{SECRET}{number}"))(1) == f"{SECRET}1"


def test_of_a_fault_only_the_kind_is_described() -> None:
    assert describe(ValueError(SECRET)) == f"ValueError: {SECRET}"
    with hiding(wanted=True):
        assert describe(ValueError(SECRET)) == "ValueError"
        assert SECRET not in describe(missing())


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
