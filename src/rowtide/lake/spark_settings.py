"""The settings of an application of Spark: what the user and Spark ask for, in the forms in which they write it.

The first beats the second, and both beat the last. What Spark is given has to be known before its JVM starts, hence by
Spark's own rules: a default of rowtide's that is passed to spark-submit would beat the user's spark-defaults.conf.

The number of tasks that an application runs at a time, by its settings. Pure but for this machine's own number.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from rowtide.core.values import frozen
from rowtide.databases.file_access import PRIVATE
from rowtide.lake.errors import SparkSettingInvalid

MASTER = "spark.master"
USUAL_MASTER = "local[*]"
SHARED_STORAGE = "spark.rowtide.sharedStorage"
"""Our own setting: the user declares that every worker has the driver's local folders under the same paths."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
EXTENSIONS = "spark.sql.extensions"
HADOOP = "spark.hadoop."
"""Begins the settings that are Hadoop's."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

PINNED_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # As they are: readers of the files without Spark would see days of the Julian calendar before 1582.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
"""Session settings on which results depend, whatever the user sets."""

SESSION_DEFAULTS = {
    SHUFFLE_PARTITIONS: "2",
    "spark.sql.files.maxPartitionBytes": str(32 * 1024 * 1024),
    # Change tables are many small files: a task each would cost more than reading them.
    "spark.sql.files.openCostInBytes": str(256 * 1024),
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.stats.collect": "true",
    # What compaction merges, and up to what size; a file that is large enough is not written again and again.
    "spark.databricks.delta.optimize.minFileSize": str(8 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(128 * 1024 * 1024),
    # Vacuum lists even the smallest table in this many tasks: ten thousand of them take minutes.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # On a local disk: no second file beside each, with checksums that Parquet's pages have already. fs.file.impl stays
    # as it is: executors buffer uploads to S3 in a LocalFileSystem, and fail with any other class.
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Session settings on which plans and sizes depend; the user's values beat them."""

_APPLICATION_DEFAULTS = {
    MASTER: USUAL_MASTER,
    "spark.app.name": "rowtide",
    "spark.driver.memory": "2g",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.hadoop.fs.permissions.umask-mode": f"{PRIVATE:03o}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Kept for the web interface that is not there: a thousand of each would be held in memory.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.log.level": "ERROR",
}
_ON_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Defaults if all tasks run on this machine: no other machine reaches the driver."""

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
# A JVM that has no memory left answers some calls and never others.
_EXITS_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"

_LOCAL_MASTER = re.compile(r"local(-cluster)?(\[.*\])?")
_TRUE = frozenset({"true", "1", "yes", "on"})


@frozen
class SparkRequest:
    """What a command's options or a program ask of Spark."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    has_shared_storage: bool = False
    """The user declares that every worker has the driver's local folders under the same paths."""

    def settings(self) -> dict[str, str]:
        """Return the request as settings."""
        master = {MASTER: self.master} if self.master is not None else {}
        shared = {SHARED_STORAGE: "true"} if self.has_shared_storage else {}
        return {**self.conf, **master, **shared}


def is_local(master: str) -> bool:
    """Return whether a master runs all tasks on the driver's machine."""
    return _LOCAL_MASTER.fullmatch(master.replace(" ", "")) is not None


def is_true(value: str) -> bool:
    """Return whether a setting's value is one of those that mean yes."""
    return value.strip().lower() in _TRUE


def settle(
    asked: Mapping[str, str],
    given: Mapping[str, str],
    lists: Mapping[str, str],
    storage: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the settings to start an application with.

    `asked` is what the user asked of rowtide, `given` what Spark itself was given, which it reads without us; a setting
    that is in neither gets rowtide's default, or that of `storage`: how Hadoop reaches the lakes. `lists` are joined to
    the user's own, separated by commas. What results depend on is as it must be.
    """
    chosen = {**given, **asked}
    hadoop = {f"{HADOOP}{name}": value for name, value in (storage or {}).items()}
    defaults = {**SESSION_DEFAULTS, **_APPLICATION_DEFAULTS, **hadoop}
    if is_local(chosen.get(MASTER, USUAL_MASTER)):
        defaults |= _ON_THIS_MACHINE
    settled = {name: value for name, value in defaults.items() if name not in given} | dict(asked)
    for name, added in {**lists, EXTENSIONS: _DELTA_EXTENSION}.items():
        settled[name] = join_lists(chosen.get(name, ""), added)
    settled[_JAVA_OPTIONS] = f"{_EXITS_WITHOUT_MEMORY} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    return settled | PINNED_SETTINGS


def join_lists(first: str, second: str) -> str:
    """Join two lists separated by commas; each item is there once."""
    items = (item.strip() for items in (first, second) for item in items.split(","))
    return ",".join(dict.fromkeys(item for item in items if item))


_LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)(?:,.*)?\])?")
_UNKNOWN = 50
"""A cluster that says nothing: a quarter of Spark's 200 shuffle partitions."""


def count_cores(setting: Callable[[str], str | None]) -> int:
    """Return how many tasks an application runs at a time; `setting` returns a setting of Spark's, or None."""
    given = _as_number(setting("spark.default.parallelism"))
    if given:
        return given
    local = _LOCAL.fullmatch((setting("spark.master") or "").replace(" ", ""))
    if local is not None:
        threads = local["threads"] or "1"
        return int(threads) if threads.isdigit() else os.cpu_count() or 1
    executors = setting("spark.executor.instances") or setting("spark.dynamicAllocation.maxExecutors")
    return _as_number(executors) * (_as_number(setting("spark.executor.cores")) or 1) or _UNKNOWN


def _as_number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0


PACKAGES = "spark.jars.packages"

OPTIONS = {
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--name": "spark.app.name",
    "--jars": "spark.jars",
    "--packages": PACKAGES,
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--py-files": "spark.submit.pyFiles",
    "--files": "spark.files",
    "--archives": "spark.archives",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-cores": "spark.driver.cores",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
    "--queue": "spark.yarn.queue",
    "--principal": "spark.kerberos.principal",
    "--keytab": "spark.kerberos.keytab",
}
"""Options of spark-submit, and the settings for which they stand; an option beats its setting."""

_SETTINGS = ("--conf", "-c")
_FLAGS = frozenset({"--supervise", "--verbose", "-v", "--load-spark-defaults"})
"""Options without a value."""
PROPERTIES_FILE = "--properties-file"

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PROPERTY = re.compile(r"((?:\\.|[^\\\s=:])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


def parse_setting(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE. Raises `SparkSettingInvalid`."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals:
        raise SparkSettingInvalid(text, "it has no equals sign")
    if not name.startswith("spark."):
        raise SparkSettingInvalid(text, 'its name does not begin with "spark."')
    return name, value


def parse_settings(text: str) -> dict[str, str]:
    """Parse settings separated by spaces or line ends, quoted as in a shell. Raises `SparkSettingInvalid`."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SparkSettingInvalid(text, "a quotation mark is not closed") from error
    return dict(parse_setting(word) for word in words)


def parse_submit_arguments(text: str) -> dict[str, str]:
    """Return the settings in arguments of spark-submit; with `PROPERTIES_FILE`, the name of a file of settings."""
    conf: dict[str, str] = {}
    by_option: dict[str, str] = {}
    for option, value in _pair(_split(text)[0]):
        if option in _SETTINGS:
            name, _, setting = value.partition("=")
            conf[name] = setting
        elif option == PROPERTIES_FILE:
            by_option[PROPERTIES_FILE] = value
        elif option in OPTIONS:
            by_option[OPTIONS[option]] = value
    return conf | by_option


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """Return arguments of spark-submit in which the given settings beat those that are there."""
    options, rest = _split(text)
    named = {setting: option for option, setting in OPTIONS.items()}
    added = [
        word
        for name, value in settings.items()
        for word in ((named[name], value) if name in named else ("--conf", f"{name}={value}"))
    ]
    return shlex.join([*options, *added, *(rest or ["pyspark-shell"])])


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return the options with their values, and the rest: the application and its arguments."""
    words = shlex.split(text)
    place = 0
    while place < len(words) and words[place].startswith("-"):
        has_value = words[place] not in _FLAGS and "=" not in words[place]
        place += 1 + has_value
    return words[:place], words[place:]


def _pair(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option with its value, which follows it or an equals sign."""
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if equals:
            yield option, value
        elif word not in _FLAGS:
            yield word, next(left, "")


def parse_properties(text: str) -> dict[str, str]:
    """Parse a file of Java properties, as spark-defaults.conf is one; values are stripped as by Spark."""
    properties: dict[str, str] = {}
    for line in _join_lines(text):
        found = _PROPERTY.match(line)
        if found is not None:
            properties[_unescape(found[1])] = _unescape(found[2]).strip()
    return properties


def _join_lines(text: str) -> Iterator[str]:
    """Yield logical lines without comments: one that ends with a backslash continues on the next."""
    begun = ""
    for line in text.splitlines():
        part = line.lstrip()
        if not begun and (not part or part[0] in "#!"):
            continue
        if (len(part) - len(part.rstrip("\\"))) % 2:
            begun += part[:-1]
            continue
        yield begun + part
        begun = ""
    if begun:
        yield begun


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPES.get(escape, escape)

    return _ESCAPED.sub(replace, text)
