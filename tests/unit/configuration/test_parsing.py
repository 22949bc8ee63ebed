"""What a configuration file says, and everything that is wrong in it."""

from __future__ import annotations

import re

import pytest

from builders.commands.configuration_files import parse
from rowtide.configuration.errors import ConfigurationInvalid, ConfigurationNotRead
from rowtide.configuration.parsing import find_lines
from rowtide.configuration.settings import AgentJob, DatabaseSettings, LogSettings, MonitorSettings, MonitorValues
from rowtide.databases.passwords import CommandPassword, EnvironmentPassword, FilePassword
from rowtide.databases.urls import parse_url
from rowtide.events.configuration import LogFormat
from rowtide.events.event import Level

WHOLE = """
[log]
format = "json"
level = "warning"
destination = "/var/log/rowtide.log"
[monitor]
listen = "[::1]:9187"
auth = { file = "/run/secrets/token" }
values = "operators"
[gateway]
listen = "127.0.0.1:9000"
max-rows = 500
[defaults]
group = true
retention = 4320
max-latency = 2.5
spark-conf = ["a=b", "c=d"]
[databases.shop]
url = "postgresql://rowtide@pooler:6432/shop"
password = { env = "SHOP_PW" }
replication_url = "postgresql://rowtide@db1/shop"
run = ["capture", "merge", "capture"]
lake = "/data/lake"
operator_url = "postgresql://anna@db1/shop"
operator_password = { env = "ANNA_PW" }
audit_days = 90
[databases."it's a.b"]
url = "sqlite:////data/field.db"
[databases."東京"]
url = "host=tokyo dbname=shop"
password = { command = ["pass", "東京"] }
"""
SHOP = '[databases.shop]\nurl = "postgresql://db1/shop"\n'


def problems_of(text: str) -> str:
    with pytest.raises(ConfigurationInvalid) as raised:
        parse(text)
    return raised.value.problems


def test_a_whole_file_is_read() -> None:
    read = parse(WHOLE)

    assert read.log == LogSettings(format=LogFormat.JSON, level=Level.WARNING, destination="/var/log/rowtide.log")
    assert read.monitor == MonitorSettings(
        listen="[::1]:9187", auth=FilePassword("/run/secrets/token"), values=MonitorValues.OPERATORS
    )
    assert read.defaults == {"group": True, "retention": 4320, "max-latency": 2.5, "spark-conf": ("a=b", "c=d")}
    assert read.gateway == {"listen": "127.0.0.1:9000", "max-rows": 500}
    assert list(read.databases) == ["shop", "it's a.b", "東京"]
    assert read.databases["shop"] == DatabaseSettings(
        url=parse_url("postgresql://rowtide@pooler:6432/shop"),
        password=EnvironmentPassword("SHOP_PW"),
        replication_url=parse_url("postgresql://rowtide@db1/shop"),
        run=(AgentJob.CAPTURE, AgentJob.MERGE),
        lake="/data/lake",
        operator_url=parse_url("postgresql://anna@db1/shop"),
        operator_password=EnvironmentPassword("ANNA_PW"),
        audit_days=90,
    )
    assert [one.password for one in read.databases["shop"].accesses] == [
        EnvironmentPassword("SHOP_PW"),
        EnvironmentPassword("ANNA_PW"),
    ]
    assert read.databases["東京"].password == CommandPassword(("pass", "東京"))
    assert read.databases["東京"].run == (AgentJob.CAPTURE, AgentJob.CLEANUP, AgentJob.TARGETS)
    assert read.lines["databases", "it's a.b", "url"] == 28


@pytest.mark.parametrize("days", ["0", "36501", "true", "1.5", '"90"'])
def test_an_audit_is_kept_for_whole_days(days: str) -> None:
    assert "databases.shop.audit_days: write a" in problems_of(f"{SHOP}audit_days = {days}\n")


def test_an_empty_file_has_the_defaults() -> None:
    read = parse("# nothing\n")

    assert (read.log, read.monitor, dict(read.databases)) == (LogSettings(), MonitorSettings(), {})


def test_everything_that_is_wrong_is_listed_with_its_line() -> None:
    text = '[log]\nfromat = "json"\n\n[defaults]\nretenton = 5\n\n[databases.shop]\nulr = """\nrun = 1\n"""\n[lag]\n'

    assert problems_of(text).split("; line ") == [
        'line 2: unknown key "fromat"; did you mean "format"? in [log]',
        '5: unknown option "retenton"; did you mean "retention"? in [defaults]',
        "7: [databases.shop] has no url",
        '8: unknown key "ulr"; did you mean "url"? in [databases.shop]',
        '11: unknown section "lag"; did you mean "log"?',
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[log]\nlevel = "loud"', 'line 2: log.level: unknown value "loud"; write one of debug, info, warning, error'),
        ("[log]\nlevel = 3", 'line 2: log.level: unknown value "3"; write one of'),
        ('[log]\ndestination = "rowtide.log"', "line 2: log.destination: write stderr, journal, or a path"),
        ("log = 1", "line 1: log must be a section"),
        ("[[log]]", "line 1: log must be a section"),
        ("[gateway]\nmax-row = 5", 'line 2: unknown option "max-row"; did you mean "max-rows"? in [gateway]'),
        ('[monitor]\nlisten = "9187"', "line 2: monitor.listen: write host:port"),
        ('[monitor]\nlisten = "h:70000"', "line 2: monitor.listen: write host:port"),
        ('[monitor]\nvalues = "all"', 'line 2: monitor.values: unknown value "all"; write one of hidden, operators'),
        ("[defaults]\nretention = 2026-01-01", "line 2: defaults.retention: write a text, a number"),
        ("[defaults]\nmax_latency = 1", 'line 2: unknown option "max_latency"; did you mean "max-latency"?'),
        ("[databases]\nshop = 1", "line 2: databases.shop must be a section, [databases.shop]"),
        ('[databases.shop]\nurl = ""', "line 2: databases.shop.url: write a text that is not empty"),
        ('[databases.shop]\nurl = "mysql://h/x"', "line 2: databases.shop.url: there is no support for databases"),
        ('[databases.shop]\nurl = "/a/b"', "line 2: databases.shop.url: the database's URL cannot be read"),
        (SHOP + 'lake = "lake"', "line 3: databases.shop.lake: write a path from the root, or a URL"),
        (SHOP + 'run = "capture"', "line 3: databases.shop.run: write a list of texts"),
        (SHOP + 'run = ["clean"]', 'line 3: databases.shop.run: unknown value "clean"; did you mean "cleanup"?'),
        (SHOP + "run = [[1]]", 'line 3: databases.shop.run: unknown value "[1]"'),
        (SHOP + 'password = "x"', "line 3: databases.shop.password: it is kept elsewhere"),
        (SHOP + "password = {}", "line 3: databases.shop.password: write a table with one of env, file, command"),
        (SHOP + 'password = { env = "A", file = "/b" }', "line 3: databases.shop.password: write a table with one of"),
        (SHOP + 'password = { evn = "A" }', 'line 3: databases.shop.password: unknown key "evn"; did you mean "env"?'),
        (SHOP + 'password = { file = "pw" }', "line 3: databases.shop.password: file is a path from the root"),
        (SHOP + 'password = { command = "pass" }', "line 3: databases.shop.password: command is a list"),
        (SHOP + "password = { command = [] }", "line 3: databases.shop.password: command is a list"),
        (SHOP + '[databases.again]\nurl = "postgres://db1/shop"', "line 3: databases.again has the same url as"),
        ('[databases."a:b"]\nurl = "postgresql://h/x"', "line 1: 'a:b' cannot name a database"),
        ('[databases."a=b"]\nurl = "postgresql://h/x"', "line 1: 'a=b' cannot name a database"),
        ('[databases." "]\nurl = "postgresql://h/x"', "line 1: ' ' cannot name a database"),
        ('[databases."a\\nb"]\nurl = "postgresql://h/x"', "line 1: 'a\\nb' cannot name a database"),
    ],
)
def test_a_wrong_value_is_a_problem_with_its_line(text: str, problem: str) -> None:
    assert problem in problems_of(text)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t@db1/shop",
        "postgresql://me@db1/shop?password=s3cr3t",
        "host=db1 password=s3cr3t",
        "postgresql://me@db1/shop?sslpassword=s3cr3t",
        "me:s3cr3t@db1/shop",
    ],
)
@pytest.mark.parametrize("key", ["url", "replication_url"])
def test_a_password_in_a_url_is_refused_and_not_shown(key: str, url: str) -> None:
    text = f'[databases.shop]\nurl = "postgresql://db1/shop"\n{key} = "{url}"\n'.replace(
        'url = "postgresql://db1/shop"\nurl', "url"
    )

    problems = problems_of(text)

    assert "s3cr3t" not in problems
    assert ("RT-7124" in problems) == (url != "me:s3cr3t@db1/shop")


def test_a_file_that_is_not_toml_is_named_with_its_line() -> None:
    with pytest.raises(ConfigurationNotRead, match=re.escape("/etc/rowtide/rowtide.toml cannot be read")) as raised:
        parse("[log]\nlevel = \n")

    assert "line 2" in raised.value.reason


def test_a_command_is_not_shown_with_its_arguments() -> None:
    read = parse(SHOP + 'password = { command = ["echo", "s3cr3t"] }')

    assert "s3cr3t" not in repr(read)
    assert "s3cr3t" not in str(read.databases["shop"].password)


def test_keys_within_values_of_several_lines_are_none() -> None:
    text = '# a comment\n[one]\na = """\nb = 1\n[two]\n"""\nb = [\n  1,\n  2,\n]\n[two."x.y"]\nc.d = 1\ne = { f = 1 }\n'

    assert find_lines(text) == {
        ("one",): 2,
        ("one", "a"): 3,
        ("one", "b"): 7,
        ("two", "x.y"): 11,
        ("two", "x.y", "c"): 12,
        ("two", "x.y", "c", "d"): 12,
        ("two", "x.y", "e"): 13,
        ("two", "x.y", "e", "f"): 13,
    }


def test_an_array_of_tables_has_the_line_of_its_first() -> None:
    assert find_lines("[[a]]\nb = 1\n[[a]]\nb = 2\n") == {("a",): 1, ("a", "b"): 2}


def test_an_empty_file_has_no_keys() -> None:
    assert find_lines("\n# nothing\n") == {}
