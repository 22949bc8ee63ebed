"""The log reader and delivery in processes of their own, for the memory that each has at most."""

from __future__ import annotations

import re
import subprocess
import sys

from builders.capture.captured_databases import LoggedDatabase

MIB = 1024 * 1024
GIB = 1024 * MIB
_READ = """
import sys
from pathlib import Path
from rowtide.log.opening import open_log_reader
with open_log_reader(sys.argv[1]) as reader:
    while reader.position.log <= int(sys.argv[2]):
        reader.step()
print(Path("/proc/self/status").read_text())
"""
_DELIVER = """
import sys
from pathlib import Path
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.distributor import subscription_records
from rowtide.replication.distribution.run_context import DeliveryContext
from rowtide.replication.running.subscription_agent import SubscriptionAgent
engine = open_engine(sys.argv[1])
with engine.connect() as connection:
    subscriptions = subscription_records.list_subscriptions(connection)
for subscription in subscriptions:
    with SubscriptionAgent.open(DeliveryContext(sys.argv[1], engine), subscription) as agent:
        while agent.step():
            pass
print(Path("/proc/self/status").read_text())
"""


def read_in_process(logged: LoggedDatabase) -> int:
    """Read all that is committed in a process of its own; return the most memory that it had, in bytes."""
    return _measure(_READ, logged.url, str(logged.mark()))


def deliver_in_process(publisher: LoggedDatabase) -> int:
    """As above: deliver what the log store has to all subscriptions."""
    return _measure(_DELIVER, publisher.url)


def _measure(program: str, *arguments: str) -> int:
    command = [sys.executable, "-c", program, *arguments]
    status = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
