"""Rows sent by COPY beside the pipeline: a connection that breaks meanwhile is an outage, not an error of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from builders.replication.replicated_databases import Subscriber
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.delivery.pipeline import Pipeline

COPY = "copy public.copied from stdin"


def test_connection_that_breaks_during_a_copy_is_an_outage(second_subscriber: Subscriber) -> None:
    second_subscriber.execute("create table copied (id int)")
    with closing(connect(second_subscriber.url, application_name="a test")) as connection:
        pipeline, process = Pipeline(connection), connection.info.backend_pid

        def lines() -> Iterator[bytes]:
            yield b"1\n"
            second_subscriber.execute(f"select pg_terminate_backend({process}, 10000)")
            while True:
                yield b"2\n" * 100_000

        with pytest.raises(ConnectionFailed):
            pipeline.copy(COPY, lines())
    assert second_subscriber.execute("select count(*) from copied") == [(0,)]


def test_a_pipeline_whose_connection_broke_stays_an_outage(second_subscriber: Subscriber) -> None:
    """The next statement is not sent in pipeline mode, which ended with the connection."""
    with closing(connect(second_subscriber.url, application_name="a test")) as connection:
        pipeline, process = Pipeline(connection), connection.info.backend_pid
        pipeline.execute("select 1")
        second_subscriber.execute(f"select pg_terminate_backend({process}, 10000)")
        for _ in range(2):
            with pytest.raises(ConnectionFailed):
                pipeline.synchronize()
        with pytest.raises(ConnectionFailed):
            pipeline.execute("select 1")


def test_refused_copy_leaves_the_pipeline_usable(second_subscriber: Subscriber) -> None:
    second_subscriber.execute("create table copied (id int)")
    with closing(connect(second_subscriber.url, application_name="a test")) as connection:
        pipeline = Pipeline(connection)
        refused = pipeline.copy(COPY, [b"1\n", b"x\n", b"2\n" * 500_000])
        assert refused is not None
        assert refused.sqlstate == "22P02"
        assert pipeline.copy(COPY, [b"1\n2\n"]) is None
        pipeline.execute("insert into public.copied values (3)")
        assert pipeline.synchronize() is None
    assert second_subscriber.execute("select array_agg(id order by id) from copied") == [([1, 2, 3],)]


@pytest.mark.timeout(20)
def test_what_is_sent_between_two_looks_is_not_waited_for(
    second_subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was to be sent may be gone a moment later, and no answer comes before the end."""
    flush, looks = Pipeline._flush, iter([True])
    monkeypatch.setattr(Pipeline, "_flush", lambda pipeline: flush(pipeline) or next(looks, False))
    with closing(connect(second_subscriber.url, application_name="a test")) as connection:
        pipeline = Pipeline(connection)
        pipeline.execute("select 1")
        pipeline.push()
        assert pipeline.synchronize() is None
