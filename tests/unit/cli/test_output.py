from __future__ import annotations

from io import StringIO

from rowtide.cli.output import Format, print_rows


def test_a_table_shows_values_as_they_are() -> None:
    values = ("int4[]", "a [red] b", "[/i]", ":smile:", None)
    out = StringIO()
    print_rows(["[bold]"], [(value,) for value in values], Format.TABLE, out)
    lines = out.getvalue().splitlines()
    assert lines[1].strip("┃ ") == "[bold]"
    assert [line.strip("│ ") for line in lines[3:-1]] == ["int4[]", "a [red] b", "[/i]", ":smile:", "NULL"]
