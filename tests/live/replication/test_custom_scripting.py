"""Custom scripts run in the transaction of a schema change, so that custom procedures follow it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.commands.hints import run_printed
from builders.faults.killed_programs import KILLED
from builders.replication.articles import commands
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from rowtide.core.errors import InvalidLsn
from rowtide.replication import ScriptedChange
from rowtide.replication.errors.delivery import CustomScriptFailed
from rowtide.replication.errors.publishing import ArticleUnknown, CustomScriptInvalid

ORDERS = "create table orders (id int primary key, customer text)"
PUT = "create procedure put({}) language plpgsql as 'begin insert into orders values ({}); end'"
OLD, NEW = PUT.format("c1 int, c2 text", "c1, c2"), PUT.format("c1 int, c2 text, c3 text", "c1, c2, upper(c3)")
FOLLOW = f"-- The next form.\ndrop procedure put(int, text);\n{NEW};\nselect 1;"
ADD = "alter table orders add column note text"


@pytest.fixture
def with_procedure(replicated: ReplicatedDatabase) -> ReplicatedDatabase:
    """A table whose inserts call a custom procedure."""
    replicated.subscriber.execute(OLD)
    replicated.begin(ORDERS, orders={"commands": commands(insert="CALL put")})
    return replicated


def write_form(change: ScriptedChange) -> str:
    """The custom script as a function: a procedure with the parameters that it is told."""
    dropped = ", ".join(kind for _, kind in change.earlier_columns)
    taken = ", ".join(f"{name} {kind}" for name, kind in change.parameters["insert"])
    values = ", ".join(name for name, _ in change.parameters["insert"])
    return f"drop procedure put({dropped}); {PUT.format(taken, values)}"


def write_nothing(_change: ScriptedChange) -> None:
    """A function that returns no SQL."""


def end_process(_change: ScriptedChange) -> str:
    """A function that ends its process."""
    raise SystemExit(3)


def test_custom_procedure_follows_a_changed_signature(with_procedure: ReplicatedDatabase) -> None:
    with_procedure.replication.register_custom_scripting(PUBLICATION, "orders", sql=FOLLOW, name="put.sql")
    with with_procedure.writer() as writer:
        writer.execute("insert into orders values (1, 'ada')")
        writer.execute(ADD)
        writer.execute("insert into orders values (2, 'bob', 'new')")
    with_procedure.deliver()

    assert with_procedure.subscriber.execute("table orders") == [(1, "ada", None), (2, "bob", "NEW")]


def test_a_failed_script_applies_nothing(with_procedure: ReplicatedDatabase) -> None:
    replication = with_procedure.replication
    replication.register_custom_scripting(PUBLICATION, "orders", sql="drop procedure put(int); " + NEW, name="put.sql")
    with_procedure.publisher.execute(ADD, "insert into orders values (2, 'bob', 'new')")
    with pytest.raises(CustomScriptFailed, match=r"script put.sql of public.orders failed .*put\(integer\)") as failed:
        with_procedure.deliver()
    columns = "select count(*) from pg_attribute where attrelid = 'orders'::regclass and attnum > 0"
    assert with_procedure.subscriber.execute(columns) == [(2,)]
    corrected = Path(with_procedure.publisher.lake) / "put.sql"
    corrected.write_text(FOLLOW)
    run_printed(failed.value, with_procedure.publisher.url, PUBLICATION=PUBLICATION, FILE=str(corrected))
    with_procedure.deliver()

    assert with_procedure.subscriber.execute("table orders") == [(2, "bob", "NEW")]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_script_that_ends_the_transaction_is_refused(with_procedure: ReplicatedDatabase, ending: str) -> None:
    with_procedure.replication.register_custom_scripting(PUBLICATION, "orders", sql=f"{FOLLOW} {ending};")
    with_procedure.publisher.execute(ADD)
    with pytest.raises(CustomScriptFailed, match="EXECUTE of transaction commands"):
        with_procedure.deliver()


def test_a_function_that_ends_its_process_is_refused(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    form = f"{end_process.__module__}:{end_process.__name__}"
    replicated.replication.register_custom_scripting(PUBLICATION, "orders", python=form)
    replicated.publisher.execute(ADD, "insert into orders values (1, 'ada', 'new')")
    with pytest.raises(CustomScriptFailed, match="SystemExit: 3") as failed:
        replicated.deliver()
    corrected = Path(replicated.publisher.lake) / "put.sql"
    corrected.write_text("select 1")
    run_printed(failed.value, replicated.publisher.url, PUBLICATION=PUBLICATION, FILE=str(corrected))
    replicated.deliver()
    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_function_writes_the_script(with_procedure: ReplicatedDatabase) -> None:
    replication, form = with_procedure.replication, f"{write_form.__module__}:{write_form.__name__}"
    replication.register_custom_scripting(PUBLICATION, "orders", python=form)
    with_procedure.publisher.execute(ADD, "insert into orders values (1, 'a', 'b')")
    with_procedure.publisher.execute(
        "alter table orders add column n int", "insert into orders values (2, 'c', 'd', 3)"
    )
    with_procedure.deliver()

    with_procedure.require_equal("orders")
    replication.register_custom_scripting(PUBLICATION, "orders", python=form.replace("write_form", "write_nothing"))
    with_procedure.publisher.execute("alter table orders drop column n")
    with pytest.raises(CustomScriptFailed, match="it returned NoneType, not SQL"):
        with_procedure.deliver()


def test_subscriber_that_is_behind_gets_each_changes_own_script(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute("create table ran (script text)")
    replicated.begin(ORDERS, orders={})
    for number, script in enumerate(["one", "two"]):
        sql = f"insert into ran values ('{script}')"
        replicated.replication.register_custom_scripting(PUBLICATION, "public.orders", sql=sql, name=script)
        replicated.publisher.execute(f"alter table orders add column c{number} int")
    replicated.replication.unregister_custom_scripting(PUBLICATION, "orders")
    replicated.publisher.execute("alter table orders add column c2 int")
    replicated.deliver()

    assert replicated.subscriber.execute("table ran") == [("one",), ("two",)]


def test_script_runs_in_a_file(replicated_file: ReplicatedFile) -> None:
    replicated_file.begin(ORDERS, orders={})
    script = """
        create table log (id); create trigger note after insert on orders begin
        insert into log values (new.id); select 1; end; insert into log values (0)
    """
    register = replicated_file.replication.register_custom_scripting
    register(PUBLICATION, "orders", sql=script)
    replicated_file.publisher.execute(ADD, "insert into orders values (1, 'ada', 'new')")
    replicated_file.deliver()
    assert replicated_file.subscriber.execute("select * from log") == [(0,), (1,)]
    register(PUBLICATION, "orders", sql="drop table log; commit;")
    replicated_file.publisher.execute("alter table orders add column more text")
    with pytest.raises(CustomScriptFailed, match="not authorized"):
        replicated_file.deliver()

    assert replicated_file.subscriber.execute("select count(*) from log") == [(2,)]


def test_scripts_are_listed_and_misnamed_ones_refused(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.publish(ORDERS, orders={})
    file = tmp_path / "put.sql"
    file.write_text("select 1")

    def listed() -> str | None:
        printed = rowtide("replication", "articles", "--format", "jsonl", "--db", replicated.publisher.url).output
        script: str | None = json.loads(printed)["custom_script"]
        return script

    command = ("replication", "register-custom-scripting", PUBLICATION, "orders", "--db", replicated.publisher.url)
    assert listed() is None
    assert rowtide(*command, "--sql", str(file)).code == 0
    assert listed() == str(file)
    assert rowtide(*command, "--python", "scripts.put:write").code == 0
    assert listed() == "scripts.put:write"
    assert rowtide("replication", "unregister-custom-scripting", *command[2:]).code == 0
    assert listed() is None
    register = replicated.replication.register_custom_scripting
    for sql, python, reason in ((None, None, "either"), (" ", None, "empty"), (None, "write", "module:function")):
        with pytest.raises(CustomScriptInvalid, match=reason):
            register(PUBLICATION, "orders", sql=sql, python=python)
    with pytest.raises(ArticleUnknown):
        register(PUBLICATION, "others", sql="select 1")
    with pytest.raises(InvalidLsn):
        register(PUBLICATION, "orders", sql="select 1", from_lsn="now")
    register(PUBLICATION, "orders", sql="select 1", name="later", from_lsn="0/FFFFFF")
    assert listed() == "later"


@pytest.mark.exhaustive
def test_script_runs_in_a_table_that_is_copied_again(replicated: ReplicatedDatabase) -> None:
    replicated.subscriber.execute("create table ran (at int)")
    replicated.publish(ORDERS, orders={})
    replicated.replication.register_custom_scripting(PUBLICATION, "orders", sql="insert into ran values (1)")
    replicated.replication.add_subscription(PUBLICATION, replicated.subscriber.url)
    replicated.publisher.execute("alter table orders drop column customer")
    replicated.replication.run(once=True)

    assert replicated.subscriber.execute("table ran") == [(1,)]
    replicated.require_equal("orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", ["subscriber_commit.before", "subscriber_commit.after"])
def test_kill_leaves_all_of_a_script_or_nothing(with_procedure: ReplicatedDatabase, failpoint: str) -> None:
    with_procedure.replication.register_custom_scripting(PUBLICATION, "orders", sql=FOLLOW)
    with_procedure.publisher.execute(ADD, "insert into orders values (1, 'ada', 'new')")
    run = ("replication", "run", "--once", "--db", with_procedure.publisher.url)
    assert rowtide_process(*run, environment={"ROWTIDE_FAILPOINT": failpoint}).code == KILLED
    with_procedure.replication.run(once=True)

    assert with_procedure.subscriber.execute("table orders") == [(1, "ada", "NEW")]
