"""Reading a SQLite file, and judging it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rowtide.databases.sqlite.connect import IN_MEMORY, open_url, path_of
from rowtide.databases.sqlite.errors import translated
from rowtide.findings.place_facts import Place, read_place
from rowtide.findings.sqlite.file_facts import read_all_tracked, read_other_forms
from rowtide.findings.tracked_facts import TrackedFacts
from rowtide.findings.tracked_findings import find_in_tracked, find_outdated
from rowtide.health.disk_judgements import judge_place
from rowtide.health.facts import MergeFacts, Unread, attempt
from rowtide.health.judgements import Area, Judgement, not_looked_at, nothing_enabled
from rowtide.health.merge_facts import read_merge
from rowtide.health.merge_judgements import judge_merge
from rowtide.health.tracking_judgements import judge_tracking
from rowtide.tracking.sqlite.system_tables import FORM


@dataclass(frozen=True, slots=True)
class FileHealthFacts:
    """Everything that is judged of a file; `place` is its folder, None for a database in memory."""

    other_forms: Mapping[str, int]
    tracked: tuple[TrackedFacts, ...]
    merge: MergeFacts | Unread | None
    place: Place | None


def read_judgements(url: str) -> tuple[Judgement, ...]:
    """Judge what is tracked and merged in a file, and its disk. Raises `FileNotOpened`, `SqliteTooOld`."""
    return tuple(judge(read_facts(url)))


def read_facts(url: str) -> FileHealthFacts:
    """Read everything that is judged. Raises `FileNotOpened`, `SqliteTooOld`."""
    with closing(open_url(url)) as connection:
        path = path_of(connection)
        with translated(path):
            connection.execute("begin")
            other_forms = read_other_forms(connection)
            tracked = read_all_tracked(connection) if not other_forms else ()
    folder = str(Path(path).parent) if path != IN_MEMORY else None
    return FileHealthFacts(
        other_forms=other_forms,
        tracked=tracked,
        merge=attempt(lambda: read_merge(url)),
        place=read_place("disk", folder, was_made=True) if folder is not None else None,
    )


def judge(facts: FileHealthFacts) -> Iterator[Judgement]:
    """Judge a file. Pure."""
    if not (facts.other_forms or facts.tracked or facts.merge):
        yield nothing_enabled()
    outdated = find_outdated(facts.other_forms, FORM)
    yield from judge_tracking(outdated, [(one, tuple(find_in_tracked(one))) for one in facts.tracked])
    if isinstance(facts.merge, Unread):
        yield not_looked_at(Area.MERGE, "merge", facts.merge.error)
    elif facts.merge is not None:
        yield from judge_merge(facts.merge)
    if facts.place is not None:
        yield from judge_place(facts.place)
