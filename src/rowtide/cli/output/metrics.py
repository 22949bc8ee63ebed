"""Metrics of a command, for Prometheus: `--metrics-listen` and `--metrics-file`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

from rowtide.cli.output.rows import whole_file
from rowtide.core.addresses import Address, as_address
from rowtide.core.errors import Invalid, RowtideError
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.events.catalogue import MetricsNotWritten
from rowtide.events.emission import emit, listening

_READABLE = 0o644
"""node_exporter has a user of its own; the file has names, no rows and no secrets."""


@frozen
class MetricsFile:
    """Where the metrics of a command that ends are written."""

    file: Annotated[
        str | None,
        Option(
            "--metrics-file",
            metavar="PATH",
            help="Write metrics of this command into a file, every 15 seconds and at its end: for node_exporter's "
            "textfile collector, which reads names in .prom.",
            show_default=False,
        ),
    ] = None


@frozen
class MetricsOptions(MetricsFile):
    """Where the metrics of a command that runs on are published."""

    listen: Annotated[
        str | None,
        Option(
            "--metrics-listen",
            metavar="HOST:PORT",
            help="Serve metrics of this command at http://HOST:PORT/metrics, for Prometheus.",
            show_default=False,
            check=as_address,
        ),
    ] = None


NO_METRICS = MetricsOptions()


class MetricsOfSeveral(Invalid, number=1164):
    """Several processes would publish metrics at one place."""

    fact = "the databases of the configuration file have processes of their own, which cannot share --metrics-listen"
    hint = "Run one database with `--db NAME` whose `run` list needs one process, or run `rowtide monitor serve`."


@contextmanager
def measuring(options: MetricsFile, db: str, job: str) -> Iterator[None]:
    """Count what a command does during the block, and publish it as its options say; the file also after an error.

    Raises `ListeningFailed`, `FileNotWritable`, `ExtraMissing`.
    """
    listen = options.listen if isinstance(options, MetricsOptions) else None
    if options.file is None and listen is None:
        yield
        return
    with naming_extras():
        from rowtide.monitor.agent_figures import AgentCounter
        from rowtide.monitor.databases import name_databases
        from rowtide.monitor.publishing import serving_figures, writing_figures

    (database,) = name_databases([db])
    counter = AgentCounter(database.name, job)
    with ExitStack() as published:
        published.enter_context(listening(counter.note))
        if listen is not None:
            published.enter_context(serving_figures(counter.copy, Address.parse(listen)))
        write_now = None
        if options.file is not None:
            path = Path(options.file)
            write_now = published.enter_context(writing_figures(counter.copy, lambda text: _write(path, text)))
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            counter.note_end(has_failed=has_failed)
            if write_now is not None:
                try:
                    write_now()
                except RowtideError as error:
                    if not has_failed:
                        raise
                    # What the command failed with is what is reported.
                    emit(MetricsNotWritten(error))


def _write(path: Path, text: bytes) -> None:
    with whole_file(path) as partial:
        partial.write_bytes(text)
        if partial != path and not path.exists():
            partial.chmod(_READABLE)
