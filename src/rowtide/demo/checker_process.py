"""The second process: it reads the lake, without access to the database and without Spark.

Requests are JSON lines, each answered by one line; it ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from rowtide.demo.checker import Span, read_figures
from rowtide.demo.proof import ConsistentReader, TargetVersion, compare_tables, compare_targets

Answer = Mapping[str, Any] | list[Mapping[str, Any]] | bool | None


class Requests:
    """The supported requests; a request names a method and its arguments."""

    def __init__(self, lake: str) -> None:
        self._lake = lake
        self._reader = ConsistentReader(lake)

    def ask_possible(self) -> Answer:
        return self._reader.is_possible()

    def read(self, *, patience_s: float) -> Answer:
        found = self._reader.read(patience_s=patience_s)
        return asdict(found) if found is not None else None

    def compare(self, *, final: str) -> Answer:
        return [asdict(found) for found in compare_tables(self._lake, Path(final))]

    def compare_targets(
        self, *, final: str, current: Mapping[str, Any], history: Mapping[str, Any], lsns: Sequence[int]
    ) -> Answer:
        versions = TargetVersion(**current), TargetVersion(**history)
        return [asdict(found) for found in compare_targets(self._lake, Path(final), *versions, lsns)]

    def figures(self, *, after: int, last: int) -> Answer:
        return asdict(read_figures(self._lake, Span(after, last)))


def serve(requests: Requests, lines: TextIO, answers: TextIO) -> None:
    """Answer until the input ends."""
    methods: Mapping[str, Callable[..., Answer]] = {
        "is_possible": requests.ask_possible,
        "read": requests.read,
        "compare": requests.compare,
        "compare_targets": requests.compare_targets,
        "figures": requests.figures,
    }
    for line in lines:
        request = json.loads(line)
        answer = methods[request.pop("ask")](**request)
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Serve on standard input and output."""
    # What libraries print goes with the messages; standard output carries answers only.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(Requests(sys.argv[1]), sys.stdin, answers)


if __name__ == "__main__":
    main()
