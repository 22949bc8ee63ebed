"""The tests' S3 server decides between writers as S3 does, and keeps what it is given."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from builders.servers.object_servers import Bucket, running_object_server

THREADS, NAMES = 16, 200


@pytest.fixture
def store(bucket: Bucket) -> S3Store:
    return S3Store.from_url(bucket.url)  # finds the server by the environment


def test_of_racing_creators_of_a_name_one_wins(store: S3Store) -> None:
    wins: Counter[int] = Counter()
    together = threading.Barrier(THREADS)

    def create_each() -> None:
        for number in range(NAMES):
            together.wait()
            try:
                obstore.put(store, f"{number}", b"mine", mode="create", use_multipart=False)
            except AlreadyExistsError:
                continue
            wins[number] += 1  # of one name only one thread gets here

    threads = [threading.Thread(target=create_each) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wins == dict.fromkeys(range(NAMES), 1)


def test_listing_goes_on_after_a_name_over_pages(store: S3Store) -> None:
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda number: obstore.put(store, f"log/{number:04}", b"x"), range(1100)))
    obstore.put(store, "other", b"x")
    names = [entry["path"] for page in obstore.list(store, "log", offset="log/0049") for entry in page]
    assert names == [f"log/{number:04}" for number in range(50, 1100)]


def test_metadata_and_ranges_are_served(store: S3Store) -> None:
    obstore.put(store, "a", b"0123456789", attributes={"token": "t-1"}, mode="create", use_multipart=False)
    assert obstore.get(store, "a").attributes["token"] == "t-1"
    assert bytes(obstore.get_range(store, "a", start=3, end=6)) == b"345"
    assert obstore.head(store, "a")["last_modified"].timestamp() > 0


def test_deleting_twice_is_no_error(store: S3Store) -> None:
    obstore.put(store, "a", b"x")
    obstore.delete(store, "a")
    obstore.delete(store, "a")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "a")


def test_multipart_upload_is_put_together(store: S3Store) -> None:
    content = bytes(range(256)) * (48 << 10)
    obstore.put(store, "big", content, use_multipart=True, chunk_size=5 << 20)
    assert bytes(obstore.get(store, "big").bytes()) == content


@pytest.mark.parametrize("target", ["/object", "/upload?partNumber=1&uploadId=1"], ids=["object", "part"])
def test_chunks_of_an_upload_are_decoded(bucket: Bucket, store: S3Store, target: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(bucket.endpoint).netloc)
    path = f"/{bucket.name}{target}"
    if "?" in target:
        connection.request("POST", f"/{bucket.name}/upload?uploads")
        answer = connection.getresponse().read().decode()
        path = path.replace("uploadId=1", "uploadId=" + answer.split("<UploadId>")[1].split("<")[0])
    signature = b";chunk-signature=" + b"0" * 64
    body = b"5" + signature + b"\r\nhello\r\n" + b"3" + signature + b"\r\n yo\r\n" + b"0" + signature + b"\r\n"
    body += b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n"
    headers = {
        "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "x-amz-decoded-content-length": "8",
        "content-encoding": "aws-chunked",
    }
    connection.request("PUT", path, body, headers)
    answered = connection.getresponse()
    assert (answered.status, answered.read()) == (200, b"")
    if "?" in target:
        part = f"<Part><PartNumber>1</PartNumber><ETag>{answered.headers['ETag']}</ETag></Part>"
        whole = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
        connection.request("POST", path.replace("partNumber=1&", ""), whole)
        assert connection.getresponse().read()
    connection.close()
    assert bytes(obstore.get(store, target[1:].partition("?")[0]).bytes()) == b"hello yo"


def test_server_ends_with_a_killed_process() -> None:
    started = """
from builders.servers.object_servers import running_object_server
with running_object_server() as endpoint:
    print(endpoint, flush=True)
    input()
"""
    program = subprocess.Popen(
        [sys.executable, "-c", started], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="tests", text=True
    )
    with program:
        assert program.stdout is not None
        address = urlsplit(program.stdout.readline().strip())
        assert _is_there(address.hostname, address.port)
        program.kill()
        program.wait()
        deadline = threading.Event()
        for _ in range(500):
            if not _is_there(address.hostname, address.port):
                return
            deadline.wait(0.01)
    pytest.fail("the server outlived its process")


def test_each_server_has_its_own_port() -> None:
    with running_object_server() as one, running_object_server() as other:
        assert one != other


def _is_there(host: str | None, port: int | None) -> bool:
    connection = http.client.HTTPConnection(host or "", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
