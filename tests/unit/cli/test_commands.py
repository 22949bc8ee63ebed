"""A command's module is found without importing the others of its feature."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import get_args, get_type_hints

import pytest

from rowtide import cli
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cli.commands import COMMANDS
from rowtide.cli.groups import CliGroup, CommandTable
from rowtide.core.options import Option
from rowtide.merge.api import MergeReplication
from rowtide.replication.api import TransactionalReplication
from rowtide.targets.api import Targets
from rowtide.tracking.api import ChangeTracking

TOP = {"database", "health", "ungrouped"}
FEATURES: Mapping[str, Sequence[type]] = {
    "cdc": (ChangeDataCapture, Targets),
    "replication": (TransactionalReplication,),
    "merge": (MergeReplication,),
    "tracking": (ChangeTracking,),
}
MOST_REPEATED = 4
MODULES = {module: names for modules in COMMANDS.values() for module, names in modules.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_commands_that_the_table_names(module: str) -> None:
    assert tuple(import_module(f"rowtide.cli.{module}").app) == MODULES[module]


def test_every_module_with_commands_is_in_the_table() -> None:
    found = pkgutil.walk_packages(cli.__path__, "rowtide.cli.")
    present = {module.name.removeprefix("rowtide.cli.") for module in found}
    with_commands = {name for name in present if hasattr(import_module(f"rowtide.cli.{name}"), "app")} - {
        "commands",
        *TOP,
    }

    assert with_commands == set(MODULES)


def test_a_command_imports_no_other_commands() -> None:
    program = """
import sys
from rowtide.cli.main import run_command
run_command(["replication", "publications", "--help"])
print(*(module for module in sys.modules if module.startswith("rowtide.cli.")), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    imported = {module.removeprefix("rowtide.cli.") for module in done.stderr.split()}
    assert imported & set(MODULES) == {"replication.status"}


@pytest.mark.parametrize("group", FEATURES)
def test_a_command_repeats_few_options_of_its_method(group: str) -> None:
    """More of them are an object that both take: what an option is would be written twice."""
    repeated: dict[str, list[str]] = {}
    for module, names in COMMANDS[group].items():
        functions = vars(import_module(f"rowtide.cli.{module}"))
        for name in (one.replace("-", "_") for one in names):
            methods = [getattr(feature, name) for feature in FEATURES[group] if hasattr(feature, name)]
            taken = {one for method in methods for one in inspect.signature(method).parameters}
            hints = (
                get_type_hints(functions[name], include_extras=True) if inspect.isfunction(functions.get(name)) else {}
            )
            own = [one for one, hint in hints.items() if any(isinstance(said, Option) for said in get_args(hint))]
            repeated[name] = [one for one in own if one in taken]

    assert {name: options for name, options in repeated.items() if len(options) > MOST_REPEATED} == {}


def test_an_interrupt_ends_a_command_as_a_shell_expects() -> None:
    commands = CommandTable()

    @commands.command(epilog="Example: rowtide wait")
    def wait() -> None:
        """Wait."""
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        CliGroup("rowtide", "Commands.", commands)(["wait"])
    assert ended.value.code == 130
