"""The jars to which packages were resolved on this machine: a start of Spark that finds them again asks Ivy nothing.

Ivy takes seconds to find what it has. A package's version is fixed, and so are its jars; a jar that is gone, or has
another size, is resolved again. What the user says of jars (settings `spark.jars…`) is for Ivy alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

from rowtide.databases.file_access import make_file, make_place
from rowtide.lake.spark.arguments import PACKAGES
from rowtide.lake.spark.jars import EXCLUDES, JARS

_PYTHON_FILES = "spark.submit.pyFiles"
"""Spark offers what it resolves to Python, too: Delta's jar has its module."""


_VERSIONED = re.compile(r"(.+?)-\d")


@dataclass(frozen=True, slots=True)
class RememberedJar:
    """A jar, its size in bytes, and whether it has modules of Python."""

    url: str
    size: int
    has_python: bool


@dataclass(frozen=True, slots=True)
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
