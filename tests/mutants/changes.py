"""Small faults that can be put into a function: what a test that watches it must notice.

Pure: a module's text in, mutants out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

FLIPPED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""A comparison's boundary, and its opposite."""
UNWATCHED_CALLS = ("log", "logger", "_log")
"""What is logged is for people: no test reads each line."""
COMMUTATIVE = ("min", "max")
"""Functions whose arguments may change places."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one fault: the bytes from `start` to `end` are replaced."""

    path: str
    function: str
    """The qualified name of the outermost function that holds the fault."""
    function_line: int
    line: int
    was: str
    becomes: str
    start: int
    end: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same while other lines of the module change."""
        return self.path, self.function, self.was, self.becomes

    def apply_to(self, source: str) -> str:
        """Return the module's text with the fault."""
        text = source.encode()
        return (text[: self.start] + self.becomes.encode() + text[self.end :]).decode()

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: {_one_line(self.was)}  ->  {_one_line(self.becomes)}"


def list_mutants(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a module's functions, in the order of the text."""
    tree = ast.parse(source)
    text = source.encode()
    starts = _line_starts(text)
    found = {
        (mutant.start, mutant.end, mutant.becomes): mutant
        for name, function in outermost_functions(tree.body)
        for node, becomes in _faults(function)
        for mutant in [_place(path, name, function, node, becomes, text, starts)]
        if mutant.was != becomes
    }
    return [found[key] for key in sorted(found)]


def outermost_functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods that are in no other function, with their qualified names."""
    for node in body:
        match node:
            case ast.FunctionDef():
                yield f"{prefix}{node.name}", node
            case ast.ClassDef():
                yield from outermost_functions(node.body, f"{prefix}{node.name}.")
            case _:
                pass


def _faults(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str]]:
    """Yield what is replaced, and by what."""
    for statement in function.body:
        for node in _walk(statement):
            match node:
                case ast.stmt():
                    yield from _statement_faults(node)
                case ast.expr():
                    yield from _expression_faults(node)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what decides something.

    Neither annotations nor texts, nor what is logged or guides the type checker; nor failpoints, of which the sweeps in
    `scenarios` miss each that is not there, nor whether `zip` asserts that its arguments are of one length.
    """
    if _is_silent(node):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _is_silent(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner))) if owner in UNWATCHED_CALLS:
            return True
        case ast.Call(func=ast.Name(id="cast" | "assert_never")):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case ast.Call(func=ast.Name(id="failpoint")) | ast.keyword(arg="strict"):
            return True
        case ast.Expr(value=value):
            return _is_silent(value)
        case _:
            return False


def _statement_faults(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield value, "None"
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Compare):
            yield test, f"not ({ast.unparse(test)})"
        case _:
            pass


def _expression_faults(node: ast.expr) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            for other in FLIPPED[type(operator)]:
                yield node, ast.unparse(ast.Compare(left, [other()], [right]))
        case ast.BoolOp(op=operator, values=values):
            yield node, f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values))})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({ast.unparse(operand)})"
        case ast.IfExp(test=test, body=body, orelse=orelse) if not isinstance(test, ast.Compare):
            yield node, f"({ast.unparse(ast.IfExp(test, orelse, body))})"
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value)):
            yield node, repr(value + 1)
        case ast.BinOp(left=left, op=ast.Add(), right=right) if not _is_text(left) and not _is_text(right):
            yield node, f"({ast.unparse(ast.BinOp(left, ast.Sub(), right))})"
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield node, f"({ast.unparse(ast.BinOp(left, ast.Add(), right))})"
        case ast.Call(func=ast.Name(id=name)) if name in COMMUTATIVE:
            pass
        case ast.Call(func=func, args=[first, second, *others], keywords=keywords) if not any(
            isinstance(one, ast.Starred) for one in (first, second)
        ):
            yield node, ast.unparse(ast.Call(func, [second, first, *others], keywords))
        case _:
            pass


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _place(
    path: str, name: str, function: ast.FunctionDef, node: ast.AST, becomes: str, text: bytes, starts: list[int]
) -> Mutant:
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    line = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return Mutant(path, name, line, node.lineno, text[start:end].decode(), becomes, start, end)


def _line_starts(text: bytes) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _one_line(text: str) -> str:
    return " ".join(text.split())
