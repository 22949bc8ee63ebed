"""A lake goes from a disk to a bucket, on to another folder of it, and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import rowtide
from builders.faults.faulty_proxy import Fault, FaultyProxy
from builders.lakes.relocated_lakes import FilledLake, describe, read_ids
from builders.servers.object_servers import Bucket
from rowtide.core.errors import RowtideError
from rowtide.lake.stores import open_folder
from rowtide.relocation import transfer
from rowtide.relocation.copying import CopyProgress
from rowtide.relocation.errors import CopyReadFailed, CopyWriteFailed
from rowtide.storage import buckets
from rowtide.storage.local import LocalFolder


@pytest.fixture
def filled(tmp_path: Path) -> FilledLake:
    return FilledLake(tmp_path / "lake").fill(3)


def test_a_lake_goes_to_a_bucket_and_back(filled: FilledLake, tmp_path: Path, bucket: Bucket) -> None:
    first, second, back = f"{bucket.url}/lakes/a b", f"{bucket.url}/lakes/b", str(tmp_path / "back")
    for source, target in ((filled.path, first), (first, second), (second, back)):
        copied = rowtide.copy_lake(source, target)
        assert copied.copied_files == copied.files
        assert describe(target) == describe(filled.path)
        assert read_ids(target) == [1, 2, 3]
    filled.fill(2)
    assert 0 < rowtide.copy_lake(filled.path, first).copied_files < copied.files
    assert describe(first) == describe(filled.path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.SLOW_DOWN, Fault.INTERNAL_ERROR])
def test_requests_that_fail_are_repeated(
    filled: FilledLake, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    with FaultyProxy(bucket.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.inject(fault, one_in=7)
        for source, target in ((filled.path, f"{bucket.url}/a"), (f"{bucket.url}/a", str(tmp_path / "back"))):
            rowtide.copy_lake(source, target)
            assert describe(target) == describe(filled.path)


@pytest.mark.exhaustive
def test_a_copy_that_was_cut_off_goes_on(filled: FilledLake, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "_PATIENCE_S", 0.5)
    monkeypatch.setattr(buckets, "_FIRST_PATIENCE_S", 0.5)
    target, reports = f"{bucket.url}/a", list[CopyProgress]()
    with FaultyProxy(bucket.endpoint) as proxy, ExitStack() as cut:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)

        def cut_off(report: CopyProgress) -> None:
            reports.append(report)
            if report.files == 4:
                cut.enter_context(proxy.cut())

        with pytest.raises((CopyReadFailed, CopyWriteFailed), match="the same command continues"):
            rowtide.copy_lake(filled.path, target, on_progress=cut_off)
        cut.close()
        copied = rowtide.copy_lake(filled.path, target)
        assert describe(target) == describe(filled.path)
        assert copied.copied_files <= copied.files - 4


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_command_goes_on(filled: FilledLake, bucket: Bucket) -> None:
    target = f"{bucket.url}/a"
    command = [sys.executable, "-m", "rowtide", "lake", "copy", filled.path, target]
    with FaultyProxy(bucket.endpoint) as proxy:
        uploaded = proxy.pause(lambda request: request.method == "PUT" and "/cdc/" in request.key)
        environment = {**os.environ, "AWS_ENDPOINT_URL": proxy.endpoint}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            assert uploaded.arrived.wait(60)
            process.send_signal(signal.SIGINT)
            uploaded.release()
            _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Interrupted: the same command resumes with what is missing." in errors.splitlines()
    rowtide.copy_lake(filled.path, target)
    assert describe(target) == describe(filled.path)


def test_large_files_are_streamed(
    filled: FilledLake, tmp_path: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_WHOLE_BYTES", 500)
    for source, target in ((filled.path, f"{bucket.url}/a"), (f"{bucket.url}/a", str(tmp_path / "back"))):
        rowtide.copy_lake(source, target)
        assert describe(target) == describe(filled.path)


def test_an_upload_whose_source_fails_leaves_no_file(bucket: Bucket) -> None:
    class Unreadable(RowtideError):
        pass

    def read() -> list[bytes]:
        raise Unreadable

    folder = open_folder(f"{bucket.url}/a")
    with pytest.raises(Unreadable):
        folder.put_stream("b", lambda: (piece for _ in range(1) for piece in read()))
    assert folder.list("") == []


def test_lakes_lie_side_by_side_in_a_bucket(tmp_path: Path, bucket: Bucket) -> None:
    """A folder whose name begins with another's is not in it."""
    for number, name in enumerate(("shop", "shop2", "other/archive"), 1):
        rowtide.copy_lake(FilledLake(tmp_path / f"lake {number}").fill(number).path, f"{bucket.url}/{name}")
    for number, name in enumerate(("shop", "shop2", "other/archive"), 1):
        assert read_ids(f"{bucket.url}/{name}") == list(range(1, number + 1))


def test_sizes_and_folders_are_those_of_a_local_disk(filled: FilledLake, bucket: Bucket) -> None:
    rowtide.copy_lake(filled.path, f"{bucket.url}/a")
    there, here = open_folder(f"{bucket.url}/a"), open_folder(filled.path)
    assert isinstance(here, LocalFolder)
    for prefix in ("cdc/", "log/", "log/manifest/", "none/"):
        assert there.list_folders(prefix) == here.list_folders(prefix)
        assert there.list_sizes(prefix) == here.list_sizes(prefix)
