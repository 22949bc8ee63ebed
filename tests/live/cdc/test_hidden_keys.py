"""What capture says of a change that cannot be sent: with --hide-keys nothing of its value."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.servers.unsendable_changes import TABLES, open_western, write_around
from rowtide.databases.postgres.embedded import EmbeddedServer

BYTES = "0x81"
"""Of the character that the server cannot convert, as its message has them."""


@pytest.mark.parametrize("hides", [True, False])
def test_a_change_that_cannot_be_sent_shows_no_byte(server: EmbeddedServer, lake: Path, *, hides: bool) -> None:
    with open_western(server, lake) as western:
        western.execute(*TABLES)
        western.enable("item", "other", "third")
        write_around(western, "item")
        options = ["--hide-keys"] if hides else []
        ended = rowtide_process("--debug", "cdc", "run", "--once", *options, "--db", western.url)
        assert ended.code == 0, ended
        listed = [rowtide("cdc", name, "--db", western.url) for name in ("status", "errors", "sessions")]
        judged = [rowtide(name, "--db", western.url) for name in ("check", "health")]
        entries = [path.read_text(errors="replace") for path in lake.rglob("manifest/*") if path.is_file()]
        said = "\n".join([*(f"{one.output}{one.errors}" for one in (ended, *listed, *judged)), *entries])
        assert "item lacks changes of the transaction" in " ".join(said.split())
        assert (BYTES in said) is not hides
