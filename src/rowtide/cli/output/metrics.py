"""Metrics of a command, for Prometheus: `--metrics-listen` and `--metrics-file`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rowtide.agents.loop import ignore
from rowtide.cli.output.rows import whole_file
from rowtide.core.addresses import Address, as_address
from rowtide.core.errors import RowtideError
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.events.catalogue import MetricsNotWritten
from rowtide.events.event import emit, listening
from rowtide.listening import is_loopback

if TYPE_CHECKING:
    from rowtide.monitor.agent_figures import AgentFigures

_SEND_S = 1.0
_READABLE = 0o644
"""Readable by node_exporter, which runs as another user; the file has names, no rows and no secrets."""


@frozen
class MetricsFile:
    """The metrics options of commands that end."""

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

    @property
    def is_asked(self) -> bool:
        """Whether metrics are published."""
        return self.file is not None


@frozen
class MetricsOptions(MetricsFile):
    """The metrics options of long-running commands."""

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
    is_open: Annotated[
        bool,
        Option(
            "--metrics-open",
            help="--metrics-listen: also on an address that other machines reach, without authentication.",
        ),
    ] = False

    @property
    def is_asked(self) -> bool:
        """Whether metrics are published."""
        return self.file is not None or self.listen is not None


@contextmanager
def measuring(
    options: MetricsFile, database: str, job: str, gauges: Callable[[], Mapping[str, float]] = dict
) -> Iterator[None]:
    """Count what a command does during the block, and publish it as its options say; the file also after an error.

    `database` is what its metrics are labelled with, and values of `gauges` that are read when they are published.
    Raises `MetricsOpen`, `ListeningFailed`, `FileNotWritable`, `ExtraMissing`.
    """
    if not options.is_asked:
        yield
        return
    with naming_extras():
        from rowtide.monitor.agent_figures import AgentCounter, AgentFigures, AgentSeries, merge_figures
    counter = AgentCounter(database, job)
    has_failed = True

    def read() -> AgentFigures:
        now: dict[AgentSeries, float] = {(name, (database,)): value for name, value in gauges().items()}
        return merge_figures([counter.copy(), AgentFigures(now, {})])

    with listening(counter.note), publishing(options, read, lambda: counter.note_end(has_failed=has_failed)):
        yield
        has_failed = False


@contextmanager
def publishing(
    options: MetricsFile, read: Callable[[], AgentFigures], at_end: Callable[[], None] = ignore
) -> Iterator[None]:
    """Publish figures during the block as options say; after `at_end` once more, in the file. Raises as `measuring`."""
    with naming_extras():
        from rowtide.monitor.errors import MetricsOpen
        from rowtide.monitor.publishing import serving_figures, writing_figures
    with ExitStack() as published:
        if isinstance(options, MetricsOptions) and options.listen is not None:
            listen = Address.parse(options.listen)
            if not (options.is_open or is_loopback(listen.host)):
                raise MetricsOpen(listen.host)
            published.enter_context(serving_figures(read, listen))
        write_now: Callable[[], None] = ignore
        if options.file is not None:
            path = Path(options.file)
            write_now = published.enter_context(writing_figures(read, lambda text: _write(path, text)))
        try:
            yield
        except BaseException:
            at_end()
            try:
                write_now()
            except RowtideError as error:
                # The error of the command is reported, not this one.
                emit(MetricsNotWritten(error))
            raise
        at_end()
        write_now()


@contextmanager
def sending(send: Callable[[AgentFigures], None], database: str, job: str) -> Iterator[None]:
    """Count events during the block; send the counters when they have changed, and at the end.

    If the receiver has ended, `send` raises `OSError`: the process continues.
    """
    with naming_extras():
        from rowtide.monitor.agent_figures import AgentCounter
    counter, stop = AgentCounter(database, job), threading.Event()

    def repeat() -> None:
        sent = None
        while not stop.wait(_SEND_S):
            if (figures := counter.copy()) != sent:
                with suppress(OSError):
                    send(figures)
                sent = figures

    thread = threading.Thread(target=repeat, name="rowtide metrics", daemon=True)
    has_failed = True
    with listening(counter.note):
        thread.start()
        try:
            yield
            has_failed = False
        finally:
            stop.set()
            thread.join()
            counter.note_end(has_failed=has_failed)
            with suppress(OSError):
                send(counter.copy())


def _write(path: Path, text: bytes) -> None:
    with whole_file(path) as partial:
        partial.write_bytes(text)
        if partial != path and not path.exists():
            partial.chmod(_READABLE)
