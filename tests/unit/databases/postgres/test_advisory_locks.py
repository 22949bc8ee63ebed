"""Keys of advisory locks: no two are equal, none changes, and none is written elsewhere."""

import re
from pathlib import Path

from rowtide.databases.postgres import advisory_locks
from rowtide.databases.postgres.advisory_locks import LEASES, key_of_named_lease, key_of_publication

SOURCE = Path(__file__).parents[4] / "src" / "rowtide"
REGISTRY = SOURCE / "databases" / "postgres" / "advisory_locks.py"
IDENTITY_RANGES = 2**31
"""How many keys follow `FIRST_IDENTITY_RANGE`: nicknames are positive integers of four bytes."""

CALL = re.compile(r"pg_(?:try_)?advisory_(?:[a-z_]+|\{verb\})?(?:un)?lock(?:_shared|_all)?\((?P<key>[^)]*)")
DEFINED_ELSEWHERE = re.compile(r"\{\w+(?:\[\"\w+\"\])?|:\w+|%\(\w+|$")
KEY = re.compile(r"0x726f77|191990\d{4}|from_bytes\(b[\"']rt", re.IGNORECASE)

KEYS = {
    "LEASES": {
        "log": {"class": 1919907700, "key": 1},
        "lake": {"class": 1919907700, "key": 2},
        "agent": {"class": 1919907700, "key": 4},
        "source": {"class": 1919907700, "key": 5},
    },
    "MEMBERS": {"class": 1919907700, "key": 3},
    "ADDING_SUBSCRIPTION": {"class": 1919907700, "key": 6},
    "NAMED_LEASE_CLASS": 1919907701,
    "SUBSCRIPTION_CLASS": 1919907702,
    "PUBLICATION_CLASS": 1919907704,
    "CLOCK": 32216117714838379,
    "OWNER_FUNCTIONS": 32216169438930290,
    "ACTIONS_AUDIT": 32216109275179380,
    "MERGE_NODE_FORM": 125844260352621,
    "MERGE_LOG": 32216160547268453,
    "FIRST_IDENTITY_RANGE": 8247332697541604352,
    "SUBSCRIBER_TABLES": "hashtext('rowtide subscriber')",
    "CONFLICT_COMMENTS": "pg_catalog.hashtextextended('rowtide conflict comments', 0)",
}


def test_keys_are_those_of_released_versions() -> None:
    assert {name: value for name, value in vars(advisory_locks).items() if name.isupper() and name[0] != "_"} == KEYS
    assert key_of_named_lease("target now") == {"class": 1919907701, "key": 916463480}
    assert key_of_publication("sales") == {"class": 1919907704, "key": 901822498}


def test_no_two_pairs_are_equal() -> None:
    pairs = [*LEASES.values(), advisory_locks.MEMBERS, advisory_locks.ADDING_SUBSCRIPTION]
    assert len({(pair["class"], pair["key"]) for pair in pairs}) == len(pairs)
    classes = [value for name, value in vars(advisory_locks).items() if name.endswith("_CLASS")]
    assert len(set(classes)) == len(classes)
    assert {pair["class"] for pair in pairs} == {advisory_locks._CLASS}


def test_no_two_numbers_are_equal() -> None:
    numbers = {
        name: value
        for name, value in vars(advisory_locks).items()
        if isinstance(value, int) and not name.endswith("_CLASS") and name != "FIRST_IDENTITY_RANGE"
    }
    assert len(set(numbers.values())) == len(numbers)
    ranges = range(advisory_locks.FIRST_IDENTITY_RANGE, advisory_locks.FIRST_IDENTITY_RANGE + IDENTITY_RANGES)
    assert not {name for name, number in numbers.items() if number in ranges}


def test_keys_are_written_in_their_module_alone() -> None:
    found, written = 0, list[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        calls = [match["key"].strip() for match in CALL.finditer(text)]
        found += len(calls)
        literal = [key for key in calls if DEFINED_ELSEWHERE.match(key) is None]
        if path != REGISTRY:
            written += [f"{path.relative_to(SOURCE)}: {key}" for key in (*literal, *KEY.findall(text))]
    assert found > 20, "calls of these functions are recognized"
    assert written == []
