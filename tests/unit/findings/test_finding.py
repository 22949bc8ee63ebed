from __future__ import annotations

import shlex

from rowtide.findings.finding import Sql, set_and_reload, shell


def test_statements_print_on_one_line_with_note_as_comment() -> None:
    assert str(set_and_reload("a", "0")) == "alter system set a = 0; select pg_reload_conf(); -- as a superuser"
    assert str(Sql(("select 1;",))) == "select 1;"


def test_a_command_is_read_by_the_shell_as_it_was_meant() -> None:
    words = ["rowtide", "cdc", "enable-table", '"it\'s"."a b"', "--columns", "$x,`y`"]
    assert shlex.split(str(shell(*words))) == words
