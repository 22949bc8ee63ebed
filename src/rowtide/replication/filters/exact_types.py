"""Which types row filters compare: by their text in the log exactly as the server compares their values. Pure."""

from __future__ import annotations

from rowtide.core.values import frozen
from rowtide.databases.types import registry
from rowtide.databases.types.value_type import ExactType

NOT_BUILT_IN = "only PostgreSQL's numbers, booleans, UUIDs, dates, timestamps and texts compare exactly"
NOT_ORDERED = "the order of texts is their collation's: they are compared by =, <>, in and is null only"
NOT_DETERMINISTIC = "its collation makes different texts equal"


@frozen
class Inexact:
    """A type that cannot be compared, and why; `may_be_null` says whether it can be tested for null."""

    reason: str
    may_be_null: bool


def find_type(type_text: str, *, is_deterministic: bool) -> ExactType | Inexact:
    """Return how a type's values compare; `is_deterministic` is about the column's collation."""
    match registry.find_type(type_text).value_type.compared:
        case ExactType() as exact:
            return (
                exact if is_deterministic or not exact.has_collation else Inexact(NOT_DETERMINISTIC, may_be_null=True)
            )
        case None:
            # A composite value is null when its fields are: the text of those of users does not say.
            return Inexact(NOT_BUILT_IN, may_be_null=False)
        case reason:
            return Inexact(reason, may_be_null=True)
