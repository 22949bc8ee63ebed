"""Records as JSON: strict, and what is refused is named by its place alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest

from rowtide.core.json_records import JsonInvalid, JsonOf, Key, Tagged
from rowtide.core.lsn import CommitLsn, Position


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    lsn: CommitLsn
    pairs: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class First:
    kind: Literal["first"] = field(default="first", kw_only=True)
    inner: Inner | None


@dataclass(frozen=True)
class Second:
    kind: Literal["second"] = field(default="second", kw_only=True)
    at: datetime
    share: float


@dataclass(frozen=True)
class Left:
    number: int


@dataclass(frozen=True)
class Whole:
    text: str
    is_so: bool
    parts: tuple[First | Second, ...]
    side: Annotated[Left | Inner, Tagged("side", {"left": Left, "inner": Inner})]
    by_number: Mapping[int, Position]
    by_colour: Annotated[Mapping[str, Colour], Key("colours")]
    maybe: int | None = None


WHOLE = Whole(
    'größe "\\\n🦉',
    is_so=True,
    parts=(First(Inner(CommitLsn.of(1, 5), (("a", 1),))), First(None), Second(datetime(2026, 3, 1, tzinfo=UTC), 0.5)),
    side=Left(3),
    by_number={7: Position(9)},
    by_colour={"sky": Colour.RED},
)
JSON = JsonOf[Whole](Whole)


def test_a_record_survives_its_json() -> None:
    assert JSON.decode(JSON.encode(WHOLE)) == WHOLE
    assert JSON.decode(JSON.encode(WHOLE).encode()) == WHOLE


def test_json_is_as_a_person_reads_it() -> None:
    assert json.loads(JSON.encode(WHOLE)) == {
        "text": 'größe "\\\n🦉',
        "is_so": True,
        "parts": [
            {"kind": "first", "inner": {"lsn": "1:0/5", "pairs": [["a", 1]]}},
            {"kind": "first", "inner": None},
            {"kind": "second", "at": "2026-03-01T00:00:00Z", "share": 0.5},
        ],
        "side": {"side": "left", "number": 3},
        "by_number": {"7": "0/9"},
        "colours": {"sky": "red"},
        "maybe": None,
    }


def test_unknown_keys_and_missing_defaults_may_be() -> None:
    values = json.loads(JSON.encode(WHOLE)) | {"later": 1}
    del values["maybe"]

    assert JSON.decode(json.dumps(values)) == WHOLE


EXACT = JsonOf[Whole](Whole, is_exact=True)


def test_an_exact_record_survives_its_json() -> None:
    assert EXACT.decode(EXACT.encode(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(later=1), "later is not a field of Whole"),
        (lambda found: found.pop("maybe"), "maybe is not there"),
        (lambda found: found["side"].update(later=1), "side.later is not a field of Left"),
        (lambda found: found["parts"][0]["inner"].pop("pairs"), "parts.0.inner.pairs is not there"),
    ],
)
def test_an_exact_record_has_all_fields_and_no_others(change: Callable[[Any], object], said: str) -> None:
    found = json.loads(EXACT.encode(WHOLE))
    change(found)
    with pytest.raises(JsonInvalid, match=f"^{said}$"):
        EXACT.decode(json.dumps(found))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"text": 1}, "text is not a text"),
        ({"is_so": 1}, "is_so is not true or false"),
        ({"maybe": True}, "maybe is not a whole number"),
        ({"maybe": "1"}, "maybe is not a whole number"),
        ({"parts": {}}, "parts is not a list"),
        ({"parts": [{"kind": "first", "inner": {"lsn": "secret"}}]}, "parts.0.inner.lsn is not an LSN"),
        ({"parts": [{"kind": "third"}]}, "parts.0.kind is not one of first, second"),
        ({"parts": [{"kind": "second", "at": "2026-03-01", "share": 1}]}, "parts.0.at is not a time with its zone"),
        ({"parts": [{"kind": "second", "at": "secret", "share": 1}]}, "parts.0.at is not a time"),
        ({"parts": [{"kind": "first"}]}, "parts.0 is not the record First"),
        ({"side": []}, "side.side is not one of left, inner"),
        ({"by_number": {"7": -1}}, "by_number.7 is not an LSN"),
        ({"by_number": {"x": "0/1"}}, "by_number is not a whole number"),
        ({"colours": {"sky": "secret"}}, "colours.sky is not one of red"),
    ],
)
def test_what_is_of_another_type_is_named_by_its_place(change: dict[str, object], told: str) -> None:
    with pytest.raises(JsonInvalid) as refused:
        JSON.decode(json.dumps(json.loads(JSON.encode(WHOLE)) | change))

    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1", "not JSON"),
        (b"NaN", "not an object"),
        (b"null", "not an object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"number": "\\ud800"}', "not JSON"),
        (b"1" * 5000, "not JSON"),
    ],
)
def test_what_is_no_json_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=f"^{problem}$"):
        JsonOf[Left](Left).decode(data)


def test_half_a_character_is_refused() -> None:
    @dataclass(frozen=True)
    class Text:
        text: str

    with pytest.raises(JsonInvalid, match="not JSON"):
        JsonOf[Text](Text).decode('{"text": "\\ud800"}')
    assert JsonOf[Text](Text).decode('{"text": "\\ud83e\\udd89"}') == Text("🦉")
