"""Pages of the documentation are found, their links lead somewhere, and their commands are there."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest

from rowtide.cli.commands import app

ROOT = Path(__file__).parents[3]
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DECISIONS = [page for page in PAGES if page.parent.name == "decisions"]
STATUS = r"- Status: (?:proposed|accepted|superseded by \[\d+\]\(.+\))"
DAY = r"20\d\d-[01]\d-[0-3]\d"
DATED = rf"- Date: {DAY}(?:, extended {DAY})?"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
COMMANDS: Any = app


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
    """Yield the rowtide commands in a page's code blocks, those that continue in the next line as one."""
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


def is_command(line: str) -> bool:
    """Return whether a line is a command of rowtide with its options; what stands for a word does not count."""
    command, arguments = find_command(shlex.split(re.sub(r"[\[\]|…]|\.\.\.", " ", line))[1:])
    arguments = [word for word in arguments if word != "--help"]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    return not ((hasattr(command, "commands") and arguments) or options - known)


def is_whole(line: str) -> bool:
    """Return whether a command has all that it asks for, but for the database, which the environment may name."""
    command, arguments = find_command(shlex.split(line)[1:])
    parser = command.make_parser(click.Context(command))
    given, _, _ = parser.parse_args([*arguments])
    lacking = [one.name for one in command.params if one.required and one.name != "db" and not given.get(one.name)]
    return lacking == []


def find_named(page: Path) -> Iterator[str]:
    """Yield the rowtide commands in a page's sentences."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return (" ".join(found.split()) for found in re.findall(r"`(rowtide [^`]+)`", text))


def find_printed(tree: ast.AST) -> Iterator[str]:
    """Yield the commands in a module's texts, and those that it puts together of words; a value is named VALUE."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "shell":
            words = [_text_of(argument) for argument in node.args]
            if words[0] == "rowtide":
                yield " ".join(words)
        if isinstance(node, ast.Constant | ast.JoinedStr):
            yield from (" ".join(found.split()) for found in re.findall(r"`(rowtide [^`]+)`", _text_of(node)))


def _text_of(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_text_of, parts))
        case _:
            return "VALUE"


def test_every_page_is_reached_from_the_index() -> None:
    reached, left = {INDEX}, [INDEX]
    while left:
        found = {target for target, _ in find_links(left.pop()) if target.suffix == ".md"} - reached
        reached |= found
        left += found

    assert {page for page in PAGES if page.is_relative_to(INDEX.parent)} - reached == set()


def test_the_index_lists_each_decision() -> None:
    listed = [target for target, _ in find_links(INDEX) if target.parent.name == "decisions"]

    assert sorted(listed) == DECISIONS


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_number_status_date_and_sections(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number = int(page.name.partition("-")[0])

    assert re.match(rf"# {number}\. .+\n\n{STATUS}\n{DATED}\n\n", text)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Alternatives", "Consequences"]
    assert all(section.strip() for section in re.split(r"^## .+$", text, flags=re.MULTILINE))


def test_the_numbers_of_decisions_are_given_once() -> None:
    assert [int(page.name.partition("-")[0]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


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
    assert [line for line in find_commands(page) if not is_command(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_sentence_is_there_with_its_options(page: Path) -> None:
    assert [line for line in find_named(page) if not is_command(line)] == []


@pytest.mark.parametrize("page", ["runbooks", "upgrade", "run-as-a-service", "run-in-a-container", "declare-state"])
def test_operators_are_given_whole_commands(page: str) -> None:
    named = [*find_commands(path := ROOT / "docs" / "how-to" / f"{page}.md"), *find_named(path)]
    assert [line for line in named if not is_whole(line)] == []


def test_every_command_that_is_printed_is_there_with_its_options() -> None:
    """Hints of errors, mends, sentences of commands, docstrings; but for commands whose names are values."""
    printed = chain.from_iterable(find_printed(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)
    named = {line for line in printed if not re.match(r"rowtide (\[\^|(\w+ )?VALUE)", line)}
    assert len(named) > 100
    assert sorted(line for line in named if not is_command(line)) == []


def test_every_module_that_the_architecture_names_is_there() -> None:
    named = re.findall(r"`([\w*]+(?:/[\w*]+)+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    missing = [path for path in named if not any((*ROOT.glob(path), *(ROOT / "src" / "rowtide").glob(path)))]

    assert named
    assert missing == []
