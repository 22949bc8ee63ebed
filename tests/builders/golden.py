"""Golden files: expected SQL, in sections by the headings of their cases."""

from __future__ import annotations

from pathlib import Path

_HEADING = "-- "


def read_sections(path: Path) -> dict[str, str]:
    """Return the sections of a golden file by their headings."""
    sections = ("\n" + path.read_text()).split("\n" + _HEADING)[1:]
    split = (section.partition("\n") for section in sections)
    return {heading: text.strip("\n") for heading, _, text in split}
