"""Parses the text of a merge filter. Pure.

    condition  = condition or condition | condition and condition | not condition | predicate
    predicate  = value | value comparator value | value [not] in ( value, ... ) | value [not] like value
               | value [not] between value and value | value is [not] null | true | false
    value      = value || value | value + - * value | value / % number | + - value | function ( value, ... )
               | [table .] column | number | 'text' | type 'text' | true | false | ( condition )
               | cast ( [table .] column as type ) | cast ( function of the subscriber as type )
    function   = host_name ( ) | suser_name ( ) | suser_sname ( ) | one of FUNCTIONS

Precedence is PostgreSQL's. All other SQL is refused: subqueries, other functions, comments, parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from rowtide.core.values import frozen
from rowtide.databases.filter_words import RESERVED_WORDS, Token, TokenKind, WordCursor
from rowtide.merge.partitions.expressions.tree import (
    TYPES,
    CallExpression,
    Cast,
    ColumnExpression,
    ConstantExpression,
    ConstantForm,
    Expression,
    MembershipExpression,
    OperatorExpression,
    RangeExpression,
    SubscriberValue,
    Test,
    types_of_column,
)

MAX_DEPTH = 50
"""Limit of nesting: the parser is recursive, and Python's stack is limited."""

FUNCTIONS = {
    "abs": (1, 1),
    "coalesce": (2, 20),
    "length": (1, 1),
    "lower": (1, 1),
    "ltrim": (1, 2),
    "nullif": (2, 2),
    "replace": (3, 3),
    "rtrim": (1, 2),
    "substr": (2, 3),
    "trim": (1, 1),
    "upper": (1, 1),
}
"""Functions that PostgreSQL and SQLite have alike, and the fewest and most arguments of each."""

_OF_SUBSCRIBER = {
    "host_name": SubscriberValue.HOST_NAME,
    "suser_name": SubscriberValue.SUSER_NAME,
    "suser_sname": SubscriberValue.SUSER_NAME,
}
_TYPE_WORDS = ("date", "timestamp", "timestamptz", "uuid")
"""Before a text they say what the column beside it says too."""
_OF_GRAMMAR = frozenset(("and", "or", "not", "in", "like", "between", "is", "null", "true", "false"))
_DIVISIONS = ("/", "%")
_BARE = re.compile("[a-z_][a-z0-9_$]*")


@frozen
class ScopeTable:
    """A table whose columns a filter may name."""

    name: str
    columns: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    """PostgreSQL's names of the types of columns that may be converted."""


@frozen
class NameScope:
    """The tables of a filter: its own, and in a join filter the parent's."""

    tables: tuple[ScopeTable, ...]


def read_expression(filter_text: str, scope: NameScope) -> Expression:
    """Parse a filter. Raises `FilterUnreadable`."""
    return _ExpressionParser(WordCursor(filter_text), scope).read()


def rename_columns(filter_text: str, scope: NameScope, names: Mapping[ColumnExpression, str]) -> str:
    """Return a filter with new names of some columns; all else stays as it was written. Raises `FilterUnreadable`."""
    reader = _ExpressionParser(WordCursor(filter_text), scope)
    reader.read()
    for place, length, column, is_alone in sorted(reader.named_columns, key=lambda each: each[0], reverse=True):
        if column in names:
            # Another table may have a column of the new name.
            table = f"{_written(column.table)}." if is_alone and len(scope.tables) > 1 else ""
            start, end = place - 1, place - 1 + length
            filter_text = f"{filter_text[:start]}{table}{_written(names[column])}{filter_text[end:]}"
    return filter_text


@dataclass(slots=True)
class _ExpressionParser:
    """Recursive-descent parser, one method per rule; `depth` counts nested parentheses and signs.

    `named_columns` are those that were read: where their names are written, from 1, how long, and whether without a
    table.
    """

    words: WordCursor
    scope: NameScope
    depth: int = 0
    named_columns: list[tuple[int, int, ColumnExpression, bool]] = field(default_factory=list)

    def read(self) -> Expression:
        expression = self.disjunction()
        if self.words.token.kind is not TokenKind.END:
            raise self.words.refusal(f"an operator or the end has to follow, not {self.words.token}")
        return expression

    def disjunction(self) -> Expression:
        return self.joined(("or",), self.conjunction)

    def conjunction(self) -> Expression:
        return self.joined(("and",), self.negation)

    def negation(self) -> Expression:
        token = self.words.token
        if self.words.accept_word("not"):
            return OperatorExpression("not", (self.deeper(token, self.negation),))
        return self.predicate()

    def predicate(self) -> Expression:
        value = self.value()
        token = self.words.token
        if token.kind is TokenKind.COMPARATOR:
            self.words.take()
            return OperatorExpression("<>" if token.text == "!=" else token.text, (value, self.value()))
        if self.words.accept_word("is"):
            return self.test(value)
        is_negated = self.words.accept_word("not")
        found = self.matched(value)
        if found is not None:
            return OperatorExpression("not", (found,)) if is_negated else found
        if is_negated:
            raise self.words.refusal(f"in, like or between has to follow not, not {self.words.token}")
        return value

    def test(self, value: Expression) -> Expression:
        is_negated = self.words.accept_word("not")
        for state in ("null", "true", "false"):
            if self.words.accept_word(state):
                found = Test(value, state)
                return OperatorExpression("not", (found,)) if is_negated else found
        raise self.words.refusal(f"is has to be followed by null, true or false, not by {self.words.token}")

    def matched(self, value: Expression) -> Expression | None:
        if self.words.accept_word("in"):
            self.words.expect_mark("(")
            self.refuse_subquery(value)
            return MembershipExpression(value, self.listed())
        if self.words.accept_word("like"):
            return OperatorExpression("like", (value, self.value()))
        if not self.words.accept_word("between"):
            return None
        low = self.value()
        if not self.words.accept_word("and"):
            raise self.words.refusal(f"between has two values with and between them, not {self.words.token}")
        return RangeExpression(value, low, self.value())

    def value(self) -> Expression:
        return self.joined(("||",), self.sum)

    def sum(self) -> Expression:
        return self.joined(("+", "-"), self.product)

    def product(self) -> Expression:
        return self.joined(("*", *_DIVISIONS), self.factor)

    def factor(self) -> Expression:
        """Read an operand of a product; a divisor must be a number, so that the result is always defined."""
        divided = self.words.previous
        token = self.words.token
        is_divisor = divided is not None and divided.kind is TokenKind.OPERATOR and divided.text in _DIVISIONS
        if is_divisor and (token.kind is not TokenKind.NUMBER or not Decimal(token.text)):
            raise self.words.refusal(f"{divided} is followed by a number other than 0, so that it has a result")
        return self.signed()

    def signed(self) -> Expression:
        token = self.words.token
        if token.kind is not TokenKind.SIGN:
            return self.operand()
        self.words.take()
        return OperatorExpression(token.text, (self.deeper(token, self.signed),))

    def operand(self) -> Expression:
        token = self.words.take()
        match token.kind:
            case TokenKind.NUMBER:
                return ConstantExpression(ConstantForm.NUMBER, token.text)
            case TokenKind.TEXT:
                return ConstantExpression(ConstantForm.TEXT, token.text)
            case TokenKind.NAME | TokenKind.QUOTED_NAME:
                return self.named(token)
            case TokenKind.MARK if token.text == "(":
                self.refuse_subquery()
                expression = self.deeper(token, self.disjunction)
                self.words.expect_mark(")")
                return expression
            case _:
                raise self.words.refusal(f"a column or a value is expected, not {token}", token)

    def named(self, token: Token) -> Expression:
        is_bare = token.kind is TokenKind.NAME
        if self.words.accept_mark("("):
            return self.call(token)
        if is_bare and token.text in ("true", "false"):
            return ConstantExpression(ConstantForm.WORD, token.text)
        if is_bare and token.text == "null":
            raise self.words.refusal("what is compared with null matches never: write is null", token)
        if is_bare and self.words.token.kind is TokenKind.TEXT:
            return self.typed(token)
        return self.column(token)

    def typed(self, token: Token) -> Expression:
        if token.text not in _TYPE_WORDS:
            raise self.words.refusal(f"{token} is not one of {', '.join(_TYPE_WORDS)}, which may precede a text", token)
        return ConstantExpression(ConstantForm.TEXT, self.words.take().text)

    def call(self, token: Token) -> Expression:
        function = token.text
        if token.kind is TokenKind.NAME and function == "cast":
            return self.cast()
        if token.kind is TokenKind.NAME and function == "exists":
            self.refuse_subquery()
        if token.kind is TokenKind.NAME and function in _OF_SUBSCRIBER:
            self.words.expect_mark(")")
            return _OF_SUBSCRIBER[function]
        if token.kind is not TokenKind.NAME or function not in FUNCTIONS:
            known = ", ".join(("host_name", "suser_name", *FUNCTIONS))
            raise self.words.refusal(f"{token} is none of the functions that filters may call: {known}", token)
        arguments = self.listed()
        fewest, most = FUNCTIONS[function]
        if not fewest <= len(arguments) <= most:
            raise self.words.refusal(f"{token} has another number of arguments than {len(arguments)}", token)
        return CallExpression(function, arguments)

    def cast(self) -> Cast:
        start = self.words.token
        operand = self.operand()
        if not isinstance(operand, ColumnExpression | SubscriberValue):
            raise self.words.refusal("cast converts a column, host_name() or suser_name()", start)
        if not self.words.accept_word("as"):
            raise self.words.refusal(f"as and a type are expected, not {self.words.token}")
        named = self.words.take()
        type_name = TYPES.get(named.text) if named.kind is TokenKind.NAME else None
        if type_name is None:
            raise self.words.refusal(f"{named} is none of the types of filters, which are {', '.join(TYPES)}", named)
        if isinstance(operand, ColumnExpression):
            table = next(each for each in self.scope.tables if each.name == operand.table)
            of_column = table.types.get(operand.name, "unknown")
            if type_name not in types_of_column(of_column):
                reason = f"PostgreSQL and SQLite convert {of_column} to {named} differently, or may fail to"
                raise self.words.refusal(reason, start)
        self.words.expect_mark(")")
        return Cast(operand, type_name)

    def refuse_subquery(self, value: Expression | None = None) -> None:
        """Raise `FilterUnreadable` if a subquery is next, with the join filter to write instead."""
        if not self.words.token.is_word("select"):
            return
        start = self.words.take()
        selected, following, table = self.words.take(), self.words.take(), self.words.take()
        join = "CHILD PARENT CONDITION"
        if isinstance(value, ColumnExpression) and following.is_word("from"):
            join = f'{value.table} {table} "{value.table}.{value.name} = {table}.{selected}"'
        raise self.words.refusal(f"rows of other tables are followed by a join filter: add-filter {join}", start)

    def column(self, token: Token) -> Expression:
        if not self.words.accept_mark("."):
            return self.own_column(token)
        table = next((each for each in self.scope.tables if _is_called(each.name, token)), None)
        if table is None:
            names = " or ".join(each.name for each in self.scope.tables)
            raise self.words.refusal(f"{token} is not a table of this filter, which are {names}", token)
        name = self.words.take()
        if name.kind not in (TokenKind.NAME, TokenKind.QUOTED_NAME):
            raise self.words.refusal(f"a column has to follow {token} and a point, not {name}", name)
        if self.words.token.is_mark(".") or self.words.token.is_mark("("):
            raise self.words.refusal("a column has its table's name before it, without a schema", token)
        return self.noted(name, ColumnExpression(table.name, _find(table, name) or name.text), is_alone=False)

    def own_column(self, token: Token) -> Expression:
        is_bare = token.kind is TokenKind.NAME
        if is_bare and token.text in _OF_GRAMMAR:
            raise self.words.refusal(f"a column or a value is expected, not {token}", token)
        found = [(table.name, name) for table in self.scope.tables if (name := _find(table, token)) is not None]
        if len(found) == 1:
            return self.noted(token, ColumnExpression(*found[0]), is_alone=True)
        if is_bare and not found and token.text in RESERVED_WORDS:
            raise self.words.refusal(f"{token} is a word of SQL; quote it if it is a column", token)
        if len(self.scope.tables) > 1:
            where = "both tables have one" if found else "none of the tables has one that is published"
            raise self.words.refusal(f"write the table before column {token}: {where}", token)
        # A generated column, say, which is not published; the hub says whether it is there.
        return ColumnExpression(self.scope.tables[0].name, token.text)

    def noted(self, token: Token, column: ColumnExpression, *, is_alone: bool) -> ColumnExpression:
        length = len(token.text) if token.kind is TokenKind.NAME else len(_quoted(token.text))
        self.named_columns.append((token.position, length, column, is_alone))
        return column

    def listed(self) -> tuple[Expression, ...]:
        """Read a list in parentheses, whose opening one is already read."""
        token = self.words.token
        found = [self.deeper(token, self.disjunction)]
        while self.words.accept_mark(","):
            found.append(self.deeper(token, self.disjunction))
        self.words.expect_mark(")")
        return tuple(found)

    def joined(self, operators: Sequence[str], operand: Callable[[], Expression]) -> Expression:
        joined = operand()
        for _ in range(MAX_DEPTH):
            if not self.is_next(operators):
                return joined
            joined = self.joined_alike(self.words.token.text, joined, operand)
        raise self.words.refusal(f"operators change more than {MAX_DEPTH} times: use parentheses")

    def joined_alike(self, operator: str, first: Expression, operand: Callable[[], Expression]) -> Expression:
        operands = [first]
        while self.is_next((operator,)):
            self.words.take()
            operands.append(operand())
        return OperatorExpression(operator, tuple(operands))

    def is_next(self, operators: Sequence[str]) -> bool:
        token = self.words.token
        of_kind = (TokenKind.NAME, TokenKind.OPERATOR, TokenKind.SIGN)
        return token.kind in of_kind and token.text in operators

    def deeper(self, token: Token, operand: Callable[[], Expression]) -> Expression:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.words.refusal(f"expressions stand more than {MAX_DEPTH} deep in each other", token)
        expression = operand()
        self.depth -= 1
        return expression


def _written(name: str) -> str:
    """Return a name as filters write it: bare where that is the same."""
    is_bare = _BARE.fullmatch(name) is not None and name not in RESERVED_WORDS | _OF_GRAMMAR
    return name if is_bare else _quoted(name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_called(name: str, token: Token) -> bool:
    return token.text == name or (token.kind is TokenKind.NAME and token.text == name.lower())


def _find(table: ScopeTable, token: Token) -> str | None:
    """Return the column that a word names: exactly as written, else, unless quoted, in any case."""
    if token.text in table.columns:
        return token.text
    found = [name for name in table.columns if _is_called(name, token)]
    return found[0] if len(found) == 1 else None
