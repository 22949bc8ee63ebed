"""What a container file says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
CONTAINER_FILE = ROOT / "Containerfile"


@dataclass(frozen=True)
class Instruction:
    """An instruction and its arguments, on one line unless a quoted text has more."""

    name: str
    arguments: str


def read_stages() -> dict[str, list[Instruction]]:
    """Return the instructions of each stage by its name; the last one has none."""
    text = re.sub(r"^#.*\n", "", CONTAINER_FILE.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    stages: dict[str, list[Instruction]] = {}
    name = ""
    for line in filter(None, text.splitlines()):
        keyword, _, arguments = line.partition(" ")
        if keyword == "FROM":
            name = arguments.partition(" AS ")[2]
            stages[name] = []
        stages[name].append(Instruction(keyword, arguments))
    return stages
