"""What docstrings and comments name in backticks exists: a name that was changed is changed there, too."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import rowtide

SOURCES = Path(rowtide.__file__).parent
NAMED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")
FOREIGN = frozenset(
    {
        *("ps", "nohup", "pg_ctl", "bash_complete", "PR_SET_PDEATHSIG", "tcpi_bytes_acked", "dataclasses"),
        *("query_to_xml", "ts_stat", "bernoulli", "archive_timeout", "bc", "log_conflict", "isostring", "parse_json"),
        *("availableNow", "rule_files", "SyslogLevelPrefix", "MemoryDenyWriteExecute"),
    }
)
"""Of operating systems, servers, Spark, SQL Server and other programs, which no code of rowtide's names."""
EXAMPLES = frozenset({"_healthy", "cycle_published", "c1"})
"""An ending of names, a name that is derived from a class's, an alias in SQL."""


def test_names_in_docstrings_and_comments_exist() -> None:
    sources = {path: path.read_text() for path in sorted(SOURCES.rglob("*.py"))}
    known = {name for path, source in sources.items() for name in names_of(path, source)} | FOREIGN | EXAMPLES

    stale = [
        f"{path.relative_to(SOURCES)}:{line}: {name}"
        for path, source in sources.items()
        for line, text in texts_of(source)
        for name in NAMED.findall(text)
        if not known.issuperset(name.strip(".").split("."))
    ]

    assert stale == []


def names_of(path: Path, source: str) -> Iterator[str]:
    """Yield the names that a module has, and the words of its texts: names of SQL are there."""
    yield from path.relative_to(SOURCES).with_suffix("").parts
    tree = ast.parse(source)
    described = {id(each) for each in described_in(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text) if id(node) not in described:
                yield from re.findall(r"\w+", text)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str() as name):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    for each in described_in(ast.parse(source)):
        yield each.lineno, str(each.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def described_in(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, also those of its constants and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text
