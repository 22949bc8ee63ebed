"""Put faults into a package, one at a time, and say which of them its tests do not notice.

make mutants ARGS="log-store --sample 100 --seed 1"
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from os import environ, pathsep
from pathlib import Path

import pytest

import rowtide
from mutants.changes import Mutant, list_mutants
from mutants.equivalents import EQUIVALENT
from mutants.packages import EVERY, PACKAGES, TriedPackage
from mutants.trial import DOES_NOT_END, Trial

SOURCES = Path(rowtide.__file__).parent
TESTS = Path(__file__).parents[1]
ENOUGH = 0.95
NONE_CHOSEN = 5
"""What pytest says if no test is chosen."""


def main() -> int:
    """Return 0 if enough mutants are caught."""
    parser = argparse.ArgumentParser(prog="make mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", choices=sorted(PACKAGES))
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="how many mutants are tried (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="which ones (1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants whose description has this text")
    parser.add_argument("--limit-s", type=float, default=60, metavar="S", help="how long one is tried (60)")
    parser.add_argument("--thorough", action="store_true", help="try survivors with every test of the package, too")
    arguments = parser.parse_args()
    package = PACKAGES[arguments.package]
    possible = _list_possible(package)
    found = [mutant for mutant in possible if mutant.key not in EQUIVALENT and arguments.only in str(mutant)]
    drawn = random.Random(arguments.seed)
    mutants = drawn.sample(found, min(arguments.sample, len(found)))
    known = TESTS.parent / ".venv" / f"mutants-{arguments.package}.jsonl"
    trial = Trial(SOURCES, possible, mutants, arguments.limit_s, known)
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", package.marks]
    pytest.main([*options, *_existing(package.quick)], plugins=[trial])
    survivors = [mutant for mutant in mutants if not trial.verdicts.get(mutant, "").startswith("caught")]
    if arguments.thorough:
        survivors = [mutant for mutant in survivors if not _is_caught_by_every_test(mutant, package, trial)]
    return _report(mutants, survivors, trial.verdicts)


def _list_possible(package: TriedPackage) -> list[Mutant]:
    paths = sorted(path for source in package.sources for path in (SOURCES / source).rglob("*.py"))
    return [mutant for path in paths for mutant in list_mutants(path.relative_to(SOURCES).as_posix(), path.read_text())]


def _existing(paths: Sequence[str]) -> list[str]:
    """Return the paths below `tests`; not each level has tests of each package."""
    return [str(TESTS / path) for path in paths if (TESTS / path).exists()]


def _is_caught_by_every_test(mutant: Mutant, package: TriedPackage, trial: Trial) -> bool:
    """Run all tests of the package on a copy of the sources with the fault, which the programs they start have, too.

    The modules that enter the function come first, with the cases that `make test` leaves out: most faults end there.
    """
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place) / SOURCES.name
        shutil.copytree(SOURCES, copied, ignore=shutil.ignore_patterns("__pycache__"))
        faulty = copied / mutant.path
        faulty.write_text(mutant.apply_to(faulty.read_text()))
        near = trial.list_modules(mutant)
        is_caught = any(_fails(place, paths) for paths in (near, _existing(package.every)) if paths)
    print(f"{'caught' if is_caught else 'survives'} by every test: {mutant}", flush=True)
    return is_caught


def _fails(place: str, paths: Sequence[str]) -> bool:
    options = ["-q", "-x", "-n", "2", "--dist", "loadscope", "-p", "no:cacheprovider", "-m", EVERY]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *paths],
        env={**environ, "PYTHONPATH": pathsep.join([place, str(TESTS)])},
        check=False,
        capture_output=True,
    )
    if run.returncode == NONE_CHOSEN:
        raise SystemExit("no test of the package was chosen")
    return run.returncode != 0


def _report(mutants: Sequence[Mutant], survivors: Sequence[Mutant], verdicts: Mapping[Mutant, str]) -> int:
    caught = len(mutants) - len(survivors)
    slow = sum(verdict == DOES_NOT_END for verdict in verdicts.values())
    share = caught / max(len(mutants), 1)
    print(f"\n{caught} of {len(mutants)} mutants are caught ({share:.1%}), {slow} of them by the limit. Not noticed:")
    for mutant in survivors:
        print(f"  {mutant}")
    return 0 if caught >= ENOUGH * len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
