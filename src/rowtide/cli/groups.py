"""Commands made of functions, and groups of them: each is made when it is looked up. Actions are recorded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rowtide.cli.active_configuration import audit_days_of, configuration, defaults_for, section_of
from rowtide.cli.parameters import CliOption, parameters_of, taking_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_AUDITED = frozenset(
    {
        *("replication pause", "replication resume", "replication post-tracer-token", "replication validate"),
        *("replication reinitialize", "replication resolve"),
        *("cdc start-job", "cdc stop-job", "cdc reinitialize"),
        *("merge validate", "merge reinitialize", "merge resolve"),
        *("conflicts decide", "conflicts comment"),
    }
)
"""The values of `ActionKind`, which few commands import; a test compares them."""
_OF_DEVICES = frozenset({"merge add-device", "merge revoke-device", "merge rotate-token"})
"""The values of `DeviceAction` that are commands; a test compares them."""
_DONE = "rowtide.done"
"""The key of a command's context under which the audit entry's text is stored."""
_NOT_ARGUMENTS = frozenset({"db", "form", "wide", "yes", "dry_run", "hide_keys", "_hide_keys"})


def name_actor() -> str:
    """Return who runs this command: the user and the host."""
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"


@contextmanager
def auditing(context: click.Context) -> Iterator[None]:
    """Record the command of a context, if it is an action, and its outcome. Raises as `recording`."""
    named = f"{context.parent.info_name} {context.info_name}" if context.parent is not None else ""
    if named not in _AUDITED | _OF_DEVICES or context.params.get("dry_run") or context.params.get("url") is not None:
        # A device with a gateway's --url does not reach the hub's database.
        yield
        return
    from rowtide.actions.database_actions import recording
    from rowtide.actions.entries import ActionKind, ActionRequest, Channel, DeviceAction

    given = {name: value for name, value in context.params.items() if _is_argument(context, name)}
    kind = DeviceAction(named) if named in _OF_DEVICES else ActionKind(named)
    request = ActionRequest.make(kind, given, actor=name_actor(), channel=Channel.COMMAND_LINE)
    with recording(context.params["db"], request, keep_days=audit_days_of(context.params["db"])) as said:
        context.meta[_DONE] = said
        yield


def record_done(text: str) -> None:
    """Set the result in the audit entry of this command, if it has one."""
    click.get_current_context().meta.get(_DONE, []).append(text)


def report_done(text: str) -> None:
    """Print the result of this command, and set it in the audit entry."""
    from rowtide.cli.output.rows import notes

    notes.print(text)
    record_done(text)


def _is_argument(context: click.Context, name: str) -> bool:
    is_default = context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT
    return name not in _NOT_ARGUMENTS and not is_default


_INTERRUPTED = 130
"""The exit code of a command that SIGINT ended."""
Function = TypeVar("Function", bound=Callable[..., None])


class CliCommand(click.Command):
    """A command whose help lists its arguments before its options, and that takes options of the configuration file."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse arguments; the configuration file gives options that neither they nor the environment set."""
        options = {str(one.name): one for one in self.params if isinstance(one, CliOption)}
        names = {name: one.name_in_file for name, one in options.items() if one.name_in_file is not None}
        extra["default_map"] = {
            name: (value,) if options[name].multiple and isinstance(value, str) else value
            for name, value in defaults_for(names, args, _path_of(info_name, parent)).items()
        }
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.BadParameter as error:
            if error.param is None or not _is_default_of_file(error.param, error.ctx):
                raise
            option = error.param.opts[0].removeprefix("--")
            section = section_of(_path_of(info_name, parent), option)
            message = f"{error.message} ({section}.{option} of {configuration().path})"
            raise click.BadParameter(message, error.ctx, error.param) from error

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an action is recorded in the audit of its database."""
        with auditing(ctx):
            return super().invoke(ctx)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of arguments."""
        arguments = [one.get_help_record(ctx) for one in self.params if isinstance(one, click.Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)


class CommandTable(MutableMapping[str, click.Command]):
    """Commands by name, in the order of their help; each is made when it is looked up."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], click.Command]] = {}
        self._made: dict[str, click.Command] = {}

    def command(self, *, epilog: str, name: str = "") -> Callable[[Function], Function]:
        """Make a command of a function: of its docstring, and its parameters (`parameters_of`)."""

        def add(function: Function) -> Function:
            named = name or function.__name__.replace("_", "-")
            self._makers[named] = lambda: CliCommand(
                named,
                callback=taking_options(function),
                params=parameters_of(function),
                help=cleandoc(function.__doc__ or ""),
                epilog=epilog,
            )
            return function

        return add

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._makers[name] = lambda: command

    def __delitem__(self, name: str) -> None:
        del self._makers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def import_on_use(self, name: str, module: str) -> None:
        """Add a command of the table `app` of another module."""
        self._makers[name] = lambda: import_module(module).app[name]


class CliGroup(click.Group):
    """A group of commands; its help has the first sentence of each in full, wrapped to several lines."""

    def __init__(self, name: str, help_text: str, commands: CommandTable, **attributes: Any) -> None:
        super().__init__(name, commands, help=help_text, no_args_is_help=True, **attributes)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Ctrl-C ends it as a shell expects, where click alone would make an error of it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise click.exceptions.Exit(_INTERRUPTED) from interrupt

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(self.commands)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Return the names of commands and of the group's options, without making commands for their help."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name) for name in self.commands if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        rows = [(name, _first_paragraph(command.help or "")) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class FeatureGroup(CliGroup):
    """The commands of a feature, by the modules that have them."""

    def __init__(self, name: str, help_text: str, modules: Mapping[str, Sequence[str]]) -> None:
        table = CommandTable()
        for module, commands in modules.items():
            for command in commands:
                table.import_on_use(command, f"rowtide.cli.{module}")
        super().__init__(name, help_text, table)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; the loss of the JVM becomes one of rowtide's errors, whatever call it interrupts."""
        try:
            return super().invoke(ctx)
        except Exception:
            # Without pyspark there is no JVM, and `lake.session` is not imported.
            if "pyspark" not in sys.modules:
                raise
            from rowtide.lake.session import spark_loss_named

            with spark_loss_named():
                raise


def _path_of(name: str | None, parent: click.Context | None) -> str:
    """Return the name of a command with that of its group."""
    return " ".join(one for one in (None if parent is None else parent.info_name, name) if one)


def _is_default_of_file(parameter: click.Parameter, context: click.Context | None) -> bool:
    source = context.get_parameter_source(str(parameter.name)) if context is not None else None
    return source is click.core.ParameterSource.DEFAULT_MAP


def _first_paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())
