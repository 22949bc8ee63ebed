"""How a value of a source database is held in the lake: a type of Spark SQL, made of the value's text. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_DECIMAL_PRECISION = 38


@dataclass(frozen=True, slots=True)
class LakeType:
    """How a source type is held in the lake.

    `name` is the type in Spark SQL; `cast` turns the text, written `{text}`, into it, giving null where it does not
    fit (infinity, years before 1, NaN in a decimal): the exact text is kept beside. `holds_all`: every value fits.
    """

    name: str
    cast: str
    holds_all: bool = False

    @property
    def is_text(self) -> bool:
        """Tell whether the source's text is held as it is, so that every value fits."""
        return self.cast == "{text}"


def tried(name: str, *, holds_all: bool = False) -> LakeType:
    """Return the type that holds what Spark reads of a text as its own."""
    return LakeType(name, f"try_cast({{text}} as {name})", holds_all)
