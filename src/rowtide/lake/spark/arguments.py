"""Settings of Spark in the forms in which Spark and users write them. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from rowtide.lake.errors import SparkSettingInvalid

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
