"""Environments in which commands run besides a user's shell."""

from __future__ import annotations

import os
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

    def run(self, arguments: Sequence[str]) -> Ended:
        """Run a command without a terminal and without a home."""
        program = ["-c", _AS_UNKNOWN] if self.is_unknown_user else ["-m", "rowtide"]
        ended = subprocess.run(
            [sys.executable, *program, *arguments],
            env={"PATH": os.environ["PATH"], "ROWTIDE_CONFIG": os.devnull, **self.variables},
            cwd=self.folder,
            umask=self.umask,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            start_new_session=True,
            timeout=300,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())
