from __future__ import annotations

from io import StringIO

from rowtide.cli.output.rows import OutputFormat, print_rows


def test_a_table_shows_values_as_they_are() -> None:
    values = ("int4[]", "a [red] b", "[/i]", ":smile:", None)
    out = StringIO()
    print_rows(["[bold]"], [(value,) for value in values], OutputFormat.TABLE, out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "[bold]"
    assert lines[2:] == ["int4[]", "a [red] b", "[/i]", ":smile:", "NULL"]


def test_csv_distinguishes_null_from_empty_and_quotes_specials() -> None:
    values = (None, "", "a", 'a "b"', "a,b", "a\nb", "a\rb", "\\.", " ", -0.0, True)
    out = StringIO()
    print_rows([str(number) for number, _ in enumerate(values)], [values], OutputFormat.CSV, out)
    assert out.getvalue().split("\n", 1)[1] == ',"",a,"a ""b""","a,b","a\nb","a\rb","\\.", ,-0.0,True\n'
