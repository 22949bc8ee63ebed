"""The lines of keys in a TOML file."""

from __future__ import annotations

from rowtide.configuration.lines import find_lines


def test_keys_within_values_of_several_lines_are_none() -> None:
    text = '# a comment\n[one]\na = """\nb = 1\n[two]\n"""\nb = [\n  1,\n  2,\n]\n[two."x.y"]\nc.d = 1\ne = { f = 1 }\n'

    assert find_lines(text) == {
        ("one",): 2,
        ("one", "a"): 3,
        ("one", "b"): 7,
        ("two", "x.y"): 11,
        ("two", "x.y", "c"): 12,
        ("two", "x.y", "c", "d"): 12,
        ("two", "x.y", "e"): 13,
        ("two", "x.y", "e", "f"): 13,
    }


def test_an_array_of_tables_has_the_line_of_its_first() -> None:
    assert find_lines("[[a]]\nb = 1\n[[a]]\nb = 2\n") == {("a",): 1, ("a", "b"): 2}


def test_an_empty_file_has_no_keys() -> None:
    assert find_lines("\n# nothing\n") == {}
