"""Parses the text of a row filter, and binds it to the published columns that it names. Pure.

    condition  = condition or condition | condition and condition | not condition | ( condition ) | predicate
    predicate  = column comparator literal | column [not] in ( literal, ... )
               | column [not] between literal and literal | column is [not] null
    literal    = [sign] number | 'text' | type 'text' | true | false

Precedence is SQL's. All other SQL is refused: the result must be the server's, computed from the text of values alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rowtide.core.values import frozen
from rowtide.databases.filter_words import RESERVED_WORDS, FilterUnreadable, Token, TokenKind, WordCursor
from rowtide.databases.postgres.values import describe_type
from rowtide.databases.types.value_type import ExactType, Form, Literal, LiteralUnfit
from rowtide.replication.errors.publishing import FilterColumnUnpublished, FilterMalformed, FilterTypeInexact
from rowtide.replication.filters.conditions import (
    NOT_ORDERED,
    TYPE_WORDS,
    Comparator,
    Comparison,
    Condition,
    Conjunction,
    Constant,
    Disjunction,
    FilterColumn,
    Inexact,
    Membership,
    Negation,
    NullTest,
    Range,
    find_type,
)


@frozen
class NamedColumn:
    """A column named in a filter; `place` is the name's position in the text."""

    filter_text: str
    place: int
    column: FilterColumn

    @classmethod
    def find(cls, filter_text: str, token: Token, columns: Mapping[str, FilterColumn]) -> NamedColumn:
        """Return a column by name. Raises `FilterColumnUnpublished`."""
        if token.text not in columns:
            raise FilterColumnUnpublished(filter_text, token.position, token.text)
        return cls(filter_text, token.position, columns[token.text])

    def require_compared(self, *, in_order: bool) -> ExactType:
        """Return how the column's type compares. Raises `FilterTypeInexact`; also if it is not `in_order`."""
        found = _type_of(self.column)
        if isinstance(found, Inexact):
            raise self._inexact(found.reason)
        if in_order and not found.is_ordered:
            raise self._inexact(NOT_ORDERED)
        return found

    def require_null_or_not(self) -> None:
        """Raise `FilterTypeInexact` if the log does not say whether the server takes a value as null."""
        found = _type_of(self.column)
        if isinstance(found, Inexact) and not found.may_be_null:
            raise self._inexact(found.reason)

    def bind(self, literal: Literal, place: int, *, in_order: bool) -> Constant:
        """Return a literal as the server converts it for comparison with this column.

        Raises `FilterMalformed` if the server would refuse it, or might read it differently; `FilterTypeInexact`.
        """
        exact = self.require_compared(in_order=in_order)
        try:
            self._require_type(literal)
            return Constant(literal, exact.read_literal(literal))
        except LiteralUnfit as unfit:
            reason = f"{self.column.name} is {self.column.type_text}, and {unfit}"
            raise FilterMalformed(self.filter_text, place, reason) from None

    def _require_type(self, literal: Literal) -> None:
        if literal.type_word is not None and TYPE_WORDS[literal.type_word] != _type_name(self.column):
            raise LiteralUnfit(f"the literal is a {TYPE_WORDS[literal.type_word]}")

    def _inexact(self, reason: str) -> FilterTypeInexact:
        return FilterTypeInexact(self.filter_text, self.place, self.column.name, self.column.type_text, reason)


def _type_name(column: FilterColumn) -> str:
    return describe_type(column.type_text).data_type


def _type_of(column: FilterColumn) -> ExactType | Inexact:
    return find_type(column.type_text, is_deterministic=column.has_deterministic_collation)


MAX_DEPTH = 50
"""Limit of nesting: the parser is recursive, and Python's stack is limited."""


def parse_filter(filter_text: str, columns: Iterable[FilterColumn]) -> Condition:
    """Parse a row filter on published columns (SQL Server: sp_articlefilter, `@filter_clause`).

    Raises `FilterMalformed`, `FilterTypeInexact`, `FilterColumnUnpublished` if its result might differ from the
    server's.
    """
    try:
        words = WordCursor(filter_text)
        _require_plain(words)
        return _FilterParser(filter_text, words, {column.name: column for column in columns}).read()
    except FilterUnreadable as error:
        raise FilterMalformed(filter_text, error.position, error.reason) from None


def _require_plain(words: WordCursor) -> None:
    """Raise `FilterUnreadable` at a word that only merge's filters have, which a server evaluates."""
    for token in words.tokens:
        if token.is_mark("."):
            raise words.refusal("a column stands without its table", token)
        if token.kind is TokenKind.OPERATOR:
            raise words.refusal(f"{token} is no comparison of row filters", token)


@dataclass(slots=True)
class _FilterParser:
    """Recursive-descent parser, one method per rule; `depth` counts nested parentheses and negations."""

    filter_text: str
    words: WordCursor
    columns: Mapping[str, FilterColumn]
    depth: int = 0

    def read(self) -> Condition:
        condition = self.disjunction()
        if self.words.token.kind is not TokenKind.END:
            raise self.words.refusal(f"and, or or the end has to follow a condition, not {self.words.token}")
        return condition

    def disjunction(self) -> Condition:
        operands = self.joined("or", self.conjunction)
        return operands[0] if len(operands) == 1 else Disjunction(operands)

    def conjunction(self) -> Condition:
        operands = self.joined("and", self.negation)
        return operands[0] if len(operands) == 1 else Conjunction(operands)

    def joined(self, word: str, operand: Callable[[], Condition]) -> tuple[Condition, ...]:
        operands = [operand()]
        while self.words.accept_word(word):
            operands.append(operand())
        return tuple(operands)

    def negation(self) -> Condition:
        token = self.words.token
        if self.words.accept_word("not"):
            return Negation(self.deeper(token, self.negation))
        if self.words.accept_mark("("):
            condition = self.deeper(token, self.disjunction)
            self.words.expect_mark(")")
            return condition
        return self.predicate()

    def deeper(self, token: Token, operand: Callable[[], Condition]) -> Condition:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.words.refusal(f"conditions stand more than {MAX_DEPTH} deep in each other", token)
        condition = operand()
        self.depth -= 1
        return condition

    def predicate(self) -> Condition:
        named = self.column()
        if self.words.token.kind is TokenKind.COMPARATOR:
            return self.comparison(named)
        if self.words.accept_word("is"):
            return self.null_test(named)
        is_negated = self.words.accept_word("not")
        condition = self.membership_or_range(named)
        return Negation(condition) if is_negated else condition

    def column(self) -> NamedColumn:
        token = self.words.take()
        if token.kind not in (TokenKind.NAME, TokenKind.QUOTED_NAME):
            raise self.words.refusal(f"a condition begins with a column, not with {token}", token)
        if token.kind is TokenKind.NAME and token.text in RESERVED_WORDS:
            raise self.words.refusal(f"{token} is a word of SQL; quote it if it is a column", token)
        if self.words.token.is_mark("("):
            raise self.words.refusal(f"functions, here {token}, are not part of row filters", token)
        return NamedColumn.find(self.filter_text, token, self.columns)

    def comparison(self, named: NamedColumn) -> Condition:
        written = self.words.take().text
        comparator = Comparator("<>" if written == "!=" else written)
        return Comparison(named.column, comparator, self.constant(named, in_order=comparator.needs_order))

    def null_test(self, named: NamedColumn) -> Condition:
        is_negated = self.words.accept_word("not")
        if not self.words.accept_word("null"):
            raise self.words.refusal(f"is has to be followed by null or not null, not by {self.words.token}")
        named.require_null_or_not()
        return Negation(NullTest(named.column)) if is_negated else NullTest(named.column)

    def membership_or_range(self, named: NamedColumn) -> Condition:
        if self.words.accept_word("in"):
            return Membership(named.column, self.constants(named))
        if not self.words.accept_word("between"):
            reason = f"{named.column.name} has to be followed by a comparison, in, between or is null"
            raise self.words.refusal(f"{reason}, not by {self.words.token}")
        low = self.constant(named, in_order=True)
        if not self.words.accept_word("and"):
            raise self.words.refusal(f"between has two literals with and between them, not {self.words.token}")
        return Range(named.column, low, self.constant(named, in_order=True))

    def constants(self, named: NamedColumn) -> tuple[Constant, ...]:
        self.words.expect_mark("(")
        constants = [self.constant(named, in_order=False)]
        while self.words.accept_mark(","):
            constants.append(self.constant(named, in_order=False))
        self.words.expect_mark(")")
        return tuple(constants)

    def constant(self, named: NamedColumn, *, in_order: bool) -> Constant:
        place = self.words.token.position
        return named.bind(_read_literal(self.words), place, in_order=in_order)


def _read_literal(words: WordCursor) -> Literal:
    """Read a literal: a number with an optional sign, a text with an optional type before it, or a boolean.

    Raises `FilterUnreadable`.
    """
    token = words.take()
    match token.kind:
        case TokenKind.TEXT:
            return Literal(Form.TEXT, token.text)
        case TokenKind.NUMBER:
            return Literal(Form.NUMBER, token.text)
        case TokenKind.SIGN if words.token.kind is TokenKind.NUMBER:
            return Literal(Form.NUMBER, token.text + words.take().text)
        case TokenKind.NAME:
            return _read_named_literal(words, token)
        case _:
            raise words.refusal(f"a column is compared with a literal, not with {token}", token)


def _read_named_literal(words: WordCursor, token: Token) -> Literal:
    if token.text in ("true", "false"):
        return Literal(Form.TRUTH, token.text)
    if token.is_word("null"):
        raise words.refusal("what is compared with null matches never: write is null", token)
    if words.token.kind is not TokenKind.TEXT:
        raise words.refusal(f"a column is compared with a literal, not with {token}", token)
    if token.text not in TYPE_WORDS:
        raise words.refusal(f"{token} is not one of {', '.join(TYPE_WORDS)}, which may precede a text", token)
    return Literal(Form.TEXT, words.take().text, token.text)
