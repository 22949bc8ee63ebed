"""The second process: its own Spark, with access to the lake but not to the database.

Requests are JSON lines, each answered by one line; it ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rowtide.demo.figures import Span, read_figures
from rowtide.demo.proof import compare_tables
from rowtide.demo.reading import ConsistentReader
from rowtide.lake.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_DATA = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
"""Settings for short sessions on small tables: compiling code for each query would cost more than it saves."""

Answer = Mapping[str, Any] | list[Mapping[str, Any]] | bool | None


class Requests:
    """The supported requests; a request names a method and its arguments."""

    def __init__(self, spark: SparkSession, lake: str) -> None:
        self._spark = spark
        self._lake = lake
        self._reader = ConsistentReader(spark, lake)

    def is_possible(self) -> Answer:
        return self._reader.is_possible()

    def read(self, *, patience_s: float) -> Answer:
        found = self._reader.read(patience_s=patience_s)
        return asdict(found) if found is not None else None

    def compare(self, *, initial: str, final: str) -> Answer:
        return [asdict(found) for found in compare_tables(self._spark, self._lake, Path(initial), Path(final))]

    def figures(self, *, after: int, last: int) -> Answer:
        return asdict(read_figures(self._spark, self._lake, Span(after, last)))


def serve(requests: Requests, lines: TextIO, answers: TextIO) -> None:
    """Answer until the input ends."""
    methods: Mapping[str, Callable[..., Answer]] = {
        "is_possible": requests.is_possible,
        "read": requests.read,
        "compare": requests.compare,
        "figures": requests.figures,
    }
    for line in lines:
        request = json.loads(line)
        answer = methods[request.pop("ask")](**request)
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    """Start Spark, say `true`, and serve."""
    # What Spark and its JVM print goes with the messages; standard output carries answers only.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = build_session(master="local[*]")
    for name, value in SMALL_DATA.items():
        spark.conf.set(name, value)
    print("true", file=answers, flush=True)
    serve(Requests(spark, sys.argv[1]), sys.stdin, answers)
    spark.stop()


if __name__ == "__main__":
    main()
