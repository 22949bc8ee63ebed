"""How a source value is stored in the lake: a Spark SQL type, converted from the value's text. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DECIMAL_PRECISION = 38


@dataclass(frozen=True, slots=True)
class LakeType:
    """The lake type of a source type.

    `name` is the type in Spark SQL; `cast` converts the text, written `{text}`, and returns null for values that do not
    fit (infinity, years before 1, NaN in a decimal), whose exact text is stored in addition. `holds_all`: every value
    fits.
    """

    name: str
    cast: str
    holds_all: bool = False

    @property
    def is_text(self) -> bool:
        """Return whether the source's text is stored unchanged, so that every value fits."""
        return self.cast == "{text}"


def tried(name: str, *, holds_all: bool = False) -> LakeType:
    """Return the lake type whose values Spark parses from the text by itself."""
    return LakeType(name, f"try_cast({{text}} as {name})", holds_all)
