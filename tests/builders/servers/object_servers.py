"""S3 servers of the program that `make` builds from `tests/object_server`: objects in memory, no signature checked."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

PROGRAM = Path(__file__).parents[3] / ".venv" / "bin" / "object-server"
KEYS = {"AWS_ACCESS_KEY_ID": "rowtide", "AWS_SECRET_ACCESS_KEY": "rowtide-secret"}


@dataclass(frozen=True, slots=True)
class Bucket:
    """An empty bucket, and the variables by which programs reach its server."""

    name: str
    endpoint: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables to add; `endpoint` may be that of a proxy before the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            **KEYS,
        }


@contextmanager
def running_object_server() -> Iterator[str]:
    """Start a server on a free port of 127.0.0.1, yield its endpoint, and stop it.

    It also stops when this process is killed: its standard input ends then.
    """
    if not PROGRAM.exists():
        raise FileNotFoundError(f"{PROGRAM} is not there: run `make {PROGRAM.relative_to(PROGRAM.parents[2])}`")
    with subprocess.Popen([str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def create_bucket(endpoint: str, name: str) -> Bucket:
    """Create a bucket on the server at `endpoint`."""
    status = _request(endpoint, "PUT", f"/{name}")
    assert status == 200, f"bucket {name}: HTTP status {status}"
    return Bucket(name, endpoint)


def drop_bucket(bucket: Bucket) -> None:
    """Free the memory of a bucket and its objects."""
    _request(bucket.endpoint, "DELETE", f"/{bucket.name}", {"x-minio-force-delete": "true"})


def _request(endpoint: str, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
    try:
        connection.request(method, path, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()
