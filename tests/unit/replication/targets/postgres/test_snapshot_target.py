"""What a copy to a server of another encoding says of a character that it lacks."""

from __future__ import annotations

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.replication.targets.postgres.snapshot_target import CharacterWatch

LINES = article(source_table([("id", "integer"), ("name", "text"), ("note", "text")], name="lines", key=("id",)))
BLOCKS = (b"1\tGr\xc3\xbc\xc3\x9fe\tplain\n2\t\\N\tplain\n", b"3\tname\tfor 5 \xe2\x82\xac\n4\t\xe2\x82\xac\t\n")


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        ("latin-1", ", in column note of the row with key id = 3 (U+20AC)"),
        ("ascii", ", in column name of the row with key id = 1 (U+00FC)"),
        ("cp1252", ""),
        (None, ""),
    ],
)
def test_the_first_character_that_is_lacking_is_named(codec: str | None, said: str) -> None:
    watch = CharacterWatch(LINES, codec)
    for block in BLOCKS:
        watch.look(block)
    assert watch.describe() == said
