"""Environments in which commands run besides a user's shell."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from builders.commands.command_lines import Ended

UNKNOWN_UID = 54_321
_READ_EVERYTHING = 2
_AS_UNKNOWN = f"""
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
# The interpreter may be below a folder of root's: CAP_DAC_READ_SEARCH is kept, to read it, and no other right.
libc.prctl(8, 1, 0, 0, 0)
os.setgroups([])
os.setgid({UNKNOWN_UID})
os.setuid({UNKNOWN_UID})
right = 1 << {_READ_EVERYTHING}
assert libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", right, right, right, 0, 0, 0)) == 0
assert libc.prctl(47, 2, {_READ_EVERYTHING}, 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-m", "rowtide", *sys.argv[1:]])
"""

_VIRTUAL = ("proc", "sysfs", "devpts", "devtmpfs", "cgroup", "cgroup2", "mqueue")
_READ_ONLY = """
set -e
mount --make-rprivate /
mount --bind {written} {written}
while read -r _ place kind options _; do
    case "$kind" in {virtual}) continue ;; esac
    case "$place" in {written}) continue ;; esac
    mount -o remount,bind,ro "$place" 2>/dev/null || test "$place" != /
done < /proc/self/mounts
if touch {folder}/written 2>/dev/null; then exit 126; fi
exec "$@"
"""
"""A shell's program that runs another one where only one folder can be written to, in mounts of its own."""


@dataclass(frozen=True)
class BareEnvironment:
    """What a program is started with; all else is missing."""

    variables: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    folder: Path = Path("/")
    is_unknown_user: bool = False
    """Its user has no entry in passwd."""
    has_full_tmpdir: bool = False
    """Its folder for temporary files is on a disk that is full."""
    written: Path | None = None
    """The only folder that can be written to, as in a container with a read-only root; by root alone."""
    python: Path = Path(sys.executable)

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command without a terminal and without a home; its output is to be read."""
        program = ["-c", _AS_UNKNOWN] if self.is_unknown_user else ["-m", "rowtide"]
        mounts: list[str] = []
        if self.written is not None:
            names = {"written": self.written, "folder": self.written.parent}
            quoted = {name: shlex.quote(str(path)) for name, path in names.items()}
            mounts = ["unshare", "--mount", "sh", "-c", _READ_ONLY.format(virtual="|".join(_VIRTUAL), **quoted), "sh"]
        return subprocess.Popen(
            [*mounts, str(self.python), *program, *arguments],
            env={"PATH": os.environ["PATH"], "ROWTIDE_CONFIG": os.devnull, **self.variables},
            cwd=self.folder,
            umask=self.umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, arguments: Sequence[str]) -> Ended:
        """Run a command without a terminal and without a home."""
        with self.start(arguments) as started:
            output, errors = started.communicate(timeout=300)
        return Ended(started.returncode, output.decode(), errors.decode())


def has_own_mounts() -> bool:
    """Return whether a program may be given mounts of its own here."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
