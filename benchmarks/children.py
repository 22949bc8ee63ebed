"""A part of the benchmark in a process of its own, so that its memory and its JVM are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class ChildFailed(Exception):
    """The process ended without an answer."""


def run_child(module: str, settings: DataclassInstance, folder: Path, name: str) -> Mapping[str, Any]:
    """Run `python -m MODULE SETTINGS ANSWER`, two files of JSON, in a folder of the name; return the answer.

    Raises `ChildFailed`.
    """
    own = folder / name
    own.mkdir()
    asked, answer, output = own / "settings.json", own / "answer.json", own / "output"
    asked.touch(mode=0o600)  # it may hold a password
    asked.write_text(json.dumps(asdict(settings)))
    command = [sys.executable, "-m", module, str(asked), str(answer)]
    with output.open("wb") as file:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False, cwd=own, env=environment()
        )
    if not answer.exists():
        raise ChildFailed(f"{module} ended with {child.returncode}:\n{output.read_text(errors='replace')[-2000:]}")
    return dict(json.loads(answer.read_text()))


def environment() -> dict[str, str]:
    """Return our environment, in which a child finds this package from any folder."""
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
