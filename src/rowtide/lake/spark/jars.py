"""The jars that Spark needs: Delta's, and those of the storages whose files it reads. Pure.

Ivy resolves them when the JVM starts (`spark.jars.packages`); a folder of jars replaces that where there is no network.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rowtide.lake.spark.arguments import PACKAGES
from rowtide.lake.spark.settings import join_lists

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


@dataclass(frozen=True, slots=True)
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
