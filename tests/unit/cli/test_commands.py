"""A command's module is found without importing the others of its feature."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from rowtide import cli
from rowtide.cli.commands import COMMANDS
from rowtide.cli.groups import CommandTable, Group

TOP = {"adopt", "check", "health", "upgrade", "demo"}
MODULES = {module: names for modules in COMMANDS.values() for module, names in modules.items()}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_commands_that_the_table_names(module: str) -> None:
    assert tuple(import_module(f"rowtide.cli.{module}").app) == MODULES[module]


def test_every_module_with_commands_is_in_the_table() -> None:
    found = pkgutil.walk_packages(cli.__path__, "rowtide.cli.")
    present = {module.name.removeprefix("rowtide.cli.") for module in found}
    with_commands = {name for name in present if hasattr(import_module(f"rowtide.cli.{name}"), "app")} - {"app", *TOP}

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
    assert imported & set(MODULES) == {"replication.listings"}


def test_an_interrupt_ends_a_command_as_a_shell_expects() -> None:
    commands = CommandTable()

    @commands.command(epilog="Example: rowtide wait")
    def wait() -> None:
        """Wait."""
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        Group("rowtide", "Commands.", commands)(["wait"])
    assert ended.value.code == 130
