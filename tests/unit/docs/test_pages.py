"""Pages of the documentation are found, their links lead somewhere, and their commands are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from rowtide.cli.app import app

ROOT = Path(__file__).parents[3]
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMANDS: Any = typer.main.get_command(app)


def read_prose(page: Path) -> str:
    """Return a page without its code, in which brackets are no links and hashes no headings."""
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def find_links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the pages and the anchors that a page links to, of those in the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", read_prose(page)):
        if not target.startswith(("http:", "https:")):
            path, _, anchor = target.partition("#")
            yield ((page.parent / path).resolve() if path else page), anchor


def find_anchors(page: Path) -> set[str]:
    """Return the names that headings have, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_commands(page: Path) -> Iterator[str]:
    """Yield the rowtide commands in a page's code blocks, those that go on in the next line as one."""
    for block in re.findall(r"^```.*?$(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"(?:\$ )?(rowtide .*?)(?:\s+#.*)?$", line.strip()):
                yield found[1]


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that words lead to, and the words behind its name."""
    command = COMMANDS
    for place, word in enumerate(words):
        if word not in getattr(command, "commands", {}):
            return command, words[place:]
        command = command.commands[word]
    return command, []


def test_every_page_is_reached_from_the_index() -> None:
    reached, left = {INDEX}, [INDEX]
    while left:
        found = {target for target, _ in find_links(left.pop()) if target.suffix == ".md"} - reached
        reached |= found
        left += found

    assert {page for page in PAGES if page.is_relative_to(INDEX.parent)} - reached == set()


def test_the_index_lists_each_decision() -> None:
    decisions = {page for page in PAGES if page.parent.name == "decisions"}
    listed = [target for target, _ in find_links(INDEX) if target.parent.name == "decisions"]

    assert listed == sorted(decisions)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    broken = [
        f"{target}#{anchor}"
        for target, anchor in find_links(page)
        if not target.exists() or (anchor and anchor not in find_anchors(target))
    ]

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_code_block_is_there_with_its_options(page: Path) -> None:
    unknown = []
    for line in find_commands(page):
        command, arguments = find_command(shlex.split(re.sub(r"[\[\]|…]", " ", line))[1:])
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
        if (hasattr(command, "commands") and arguments) or options - known - {"--help"}:
            unknown.append(line)

    assert unknown == []


def test_every_module_that_the_architecture_names_is_there() -> None:
    named = re.findall(r"`([\w*]+(?:/[\w*]+)+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    missing = [path for path in named if not any((*ROOT.glob(path), *(ROOT / "src" / "rowtide").glob(path)))]

    assert named
    assert missing == []
