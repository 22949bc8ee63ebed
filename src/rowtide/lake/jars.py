"""The jars that Spark needs, and the errors by which it reports that one is missing.

Ivy resolves them when the JVM starts (`spark.jars.packages`); a folder of jars replaces that where there is no network.

The result is remembered on this machine: a start of Spark that finds the jars again does not run Ivy.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.file_access import make_file, make_place
from rowtide.lake.errors import JarMissing, WorkerModuleMissing
from rowtide.lake.spark_settings import PACKAGES, join_lists

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError


JARS = "spark.jars"
EXCLUDES = "spark.jars.excludes"
JARS_FOLDER = "ROWTIDE_JARS"

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)
_HADOOP_JAR = re.compile(r"hadoop-client-api-(\d+\.\d+\.\d+).*\.jar")
USUAL_HADOOP = "3.4.2"
"""That of the Spark that rowtide is tested with."""

_AWS_VERSION = "2.29.52"
"""The SDK that Hadoop 3.4.2 is built with."""
_AWS_BUNDLE = "software.amazon.awssdk:bundle"
_AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
"""What hadoop-aws uses of the SDK, instead of the bundle of all services, which has 600 MB."""


@frozen
class Library:
    """A library by its Maven package, `group:artifact:version`, with what is resolved beside it."""

    package: str
    class_name: str
    """A class by which its presence is seen."""
    beside: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def artifact(self) -> str:
        """The artifact's name without Spark's and Scala's versions."""
        return self.package.split(":")[1].partition("_")[0]

    def is_among(self, packages: Iterable[str], jars: Iterable[str]) -> bool:
        """Return whether one of these packages or jars is this library, of whatever version."""
        names = [package.split(":")[1] for package in packages if package.count(":") > 1]
        names += [jar.rpartition("/")[2] for jar in jars]
        return any(re.match(rf"{re.escape(self.artifact)}(?:[_-]\d|$)", name) for name in names)


DELTA = Library("io.delta:delta-spark_4.1_2.13:4.4.0", "io.delta.sql.DeltaSparkSessionExtension")

ICEBERG = Library("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.apache.iceberg.spark.SparkCatalog")
"""Only for tables that are written in this format."""


def s3_library(hadoop: str) -> Library:
    """Return Hadoop's library for S3."""
    return Library(
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        "org.apache.hadoop.fs.s3a.S3AFileSystem",
        beside=tuple(f"software.amazon.awssdk:{module}:{_AWS_VERSION}" for module in _AWS_MODULES),
        excluded=(_AWS_BUNDLE,),
    )


def gcs_library(_hadoop: str) -> Library:
    """Return Google's library for Cloud Storage."""
    return Library(
        "com.google.cloud.bigdataoss:gcs-connector:4.0.9", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
    )


def azure_library(hadoop: str) -> Library:
    """Return Hadoop's library for Azure's storage."""
    return Library(
        f"org.apache.hadoop:hadoop-azure:{hadoop}", "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"
    )


_BY_SCHEME = {
    "s3": s3_library,
    "s3a": s3_library,
    "gs": gcs_library,
    "az": azure_library,
    "abfs": azure_library,
    "abfss": azure_library,
}


def find_libraries(places: Iterable[str], hadoop: str, formats: Iterable[Library] = ()) -> tuple[Library, ...]:
    """Return the libraries with which Spark reads tables at some places, and tables of further formats."""
    schemes = (_SCHEME.match(place) for place in places)
    found = (_BY_SCHEME.get(scheme[1].lower()) for scheme in schemes if scheme is not None)
    return tuple(dict.fromkeys([DELTA, *formats, *(library(hadoop) for library in found if library is not None)]))


def find_hadoop_version(jars: Iterable[str]) -> str:
    """Return the version of Hadoop among Spark's own jars."""
    versions = (_HADOOP_JAR.fullmatch(jar) for jar in jars)
    return next((version[1] for version in versions if version is not None), USUAL_HADOOP)


def jar_settings(
    libraries: Sequence[Library], chosen: Mapping[str, str], installed: Collection[str], folder: Sequence[str] | None
) -> dict[str, str]:
    """Return what to add to the user's settings so that Spark has some libraries.

    `chosen` are the user's settings, `installed` Spark's own jars, and `folder` the jars that are used instead of
    resolving packages, if any.
    """
    if folder is not None:
        return {JARS: ",".join(folder)} if folder else {}
    packages = join_lists("", chosen.get(PACKAGES, "")).split(",")
    jars = [*installed, *join_lists("", chosen.get(JARS, "")).split(",")]
    missing = [library for library in libraries if not library.is_among(packages, jars)]
    wanted = [package for library in missing for package in (library.package, *library.beside)]
    has_bundle = any(package.startswith(f"{_AWS_BUNDLE}:") for package in packages)
    excluded = [] if has_bundle else [package for library in missing for package in library.excluded]
    lists = {PACKAGES: ",".join(wanted), EXCLUDES: ",".join(excluded)}
    return {name: value for name, value in lists.items() if value}


_PYTHON_FILES = "spark.submit.pyFiles"
"""Spark offers what it resolves to Python, too: Delta's jar has its module."""


_VERSIONED = re.compile(r"(.+?)-\d")


@frozen
class RememberedJar:
    """A jar, its size in bytes, and whether it has modules of Python."""

    url: str
    size: int
    has_python: bool


@frozen
class ResolvedJars:
    """What is remembered of the packages of one start."""

    record: Path

    @classmethod
    def of(
        cls, lists: Mapping[str, str], chosen: Mapping[str, str], environment: Mapping[str, str]
    ) -> ResolvedJars | None:
        """Return what may be remembered of the packages in `lists`; None if there are none, or the user says of jars
        where they are, or has no home.
        """
        home = environment.get("XDG_CACHE_HOME") or (f"{environment['HOME']}/.cache" if environment.get("HOME") else "")
        if PACKAGES not in lists or not home or any(name.startswith(JARS) for name in chosen):
            return None
        asked = json.dumps([lists[PACKAGES], lists.get(EXCLUDES, "")])
        return cls(Path(home) / "rowtide" / "jars" / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json")

    def recall(self, installed: Collection[str]) -> dict[str, str] | None:
        """Return the settings that name the jars, without those among `installed`, Spark's own.

        None if the jars are not known, or not there.
        """
        try:
            found = [RememberedJar(**jar) for jar in json.loads(self.record.read_text(encoding="utf-8"))]
            if any(_path(jar.url).stat().st_size != jar.size for jar in found):
                return None
        except (OSError, ValueError, TypeError):
            return None
        lacking = [jar for jar in found if not is_installed(_path(jar.url).name, installed)]
        if not lacking:
            return None
        modules = ",".join(jar.url for jar in lacking if jar.has_python)
        settings = {JARS: ",".join(jar.url for jar in lacking), _PYTHON_FILES: modules}
        return {name: value for name, value in settings.items() if value}

    def remember(self, jars: str) -> None:
        """Remember the jars, separated by commas, that an application has. A home that is full or read-only remembers
        nothing.
        """
        with suppress(OSError):
            found = [asdict(_look_at(jar)) for jar in jars.split(",") if jar]
            make_place(self.record.parent)
            written = self.record.with_name(f"{self.record.name}.{uuid.uuid4().hex}")
            make_file(written)
            written.write_text(json.dumps(found), encoding="utf-8")
            written.replace(self.record)


def is_installed(resolved: str, installed: Collection[str]) -> bool:
    """Return whether Spark has a jar by itself, of whatever version: its class loader never asks for another one.

    Ivy names a jar by its group, too: `group_artifact-1.0.jar`.
    """
    return _artifact(resolved.partition("_")[2]) in {_artifact(jar) for jar in installed}


def _artifact(jar: str) -> str:
    found = _VERSIONED.match(jar)
    return found[1] if found is not None else jar


def _look_at(jar: str) -> RememberedJar:
    path = _path(jar)
    with ZipFile(path) as files:
        has_python = any(name.endswith(".py") for name in files.namelist())
    return RememberedJar(jar, path.stat().st_size, has_python)


def _path(jar: str) -> Path:
    return Path(unquote(urlsplit(jar).path))


_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CLASS = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError|Cannot find catalog plugin class for catalog \S+:)"
    r"\W+(?:Class )?([\w.$/]+)"
)
_MISSING_SCHEME = re.compile(r"No FileSystem for scheme:? \"?(\w+)")
_NO_DELTA = re.compile(r"(?:DATA_SOURCE_NOT_FOUND|Failed to find the data source).*\bdelta\b", re.IGNORECASE)

_S3, _GCS, _AZURE = s3_library(USUAL_HADOOP), gcs_library(USUAL_HADOOP), azure_library(USUAL_HADOOP)
_BY_PREFIX = {
    "io.delta.": DELTA,
    "org.apache.spark.sql.delta.": DELTA,
    "org.apache.iceberg.": ICEBERG,
    "org.apache.hadoop.fs.s3a.": _S3,
    "software.amazon.awssdk.": _S3,
    "com.google.cloud.hadoop.": _GCS,
    "org.apache.hadoop.fs.azure": _AZURE,
}
_LACKS_BY_SCHEME = {"s3": _S3, "s3a": _S3, "gs": _GCS, "abfs": _AZURE, "abfss": _AZURE}


def find_lack(text: str) -> RowtideError | None:
    """Return the error for a jar or a module that Spark lacks, if a failure says so."""
    module = _MODULE.search(text)
    if module is not None:
        return WorkerModuleMissing(module[1])
    found = _CLASS.search(text)
    if found is not None:
        name = found[1].replace("/", ".").rstrip(".")
        library = next((library for prefix, library in _BY_PREFIX.items() if name.startswith(prefix)), None)
        return _missing(library, name)
    scheme = _MISSING_SCHEME.search(text)
    if scheme is not None:
        return _missing(_LACKS_BY_SCHEME.get(scheme[1].lower()), None)
    return _missing(DELTA, None) if _NO_DELTA.search(text) else None


@contextmanager
def lack_named() -> Iterator[None]:
    """Raise the error for a jar or a module that Spark lacks in place of Spark's own."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        lack = find_lack(str(error))
        if lack is None:
            raise
        raise lack from error


def _missing(library: Library | None, class_name: str | None) -> JarMissing | None:
    return JarMissing(class_name or library.class_name, library.package) if library is not None else None


def describe(error: Py4JJavaError) -> str:
    """Return the first line of an error's message, and of its root cause if that says more.

    Without Java class names.
    """
    said = _first_line(error.java_exception)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    reason = _first_line(cause)
    return said if reason in said else f"{said} ({reason})"


def _first_line(exception: JavaObject) -> str:
    return str(exception.getMessage() or exception.toString()).strip().splitlines()[0]
