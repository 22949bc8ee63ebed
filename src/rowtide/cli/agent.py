"""`rowtide agent`: the jobs of a database."""

from __future__ import annotations

from rowtide.cdc.scans.pace import USUAL, CaptureOptions, EngineSetting
from rowtide.cli.cdc.running import EngineOption, MaxLatency, RewriteWidened
from rowtide.cli.groups import CommandTable
from rowtide.cli.options import Db, HideKeys, Master, SharedStorage, SparkConf, spark_request
from rowtide.cli.output.watching import watching
from rowtide.events.configuration import LogOptions
from rowtide.handle import connect
from rowtide.lake.session import requesting

app = CommandTable()


@app.command(epilog="Example: rowtide agent run --db postgresql://localhost/shop")
def run(
    db: Db,
    engine: EngineOption = EngineSetting.AUTO,
    *,
    rewrite_widened: RewriteWidened = False,
    max_latency: MaxLatency = USUAL.max_latency_s,
    master: Master = None,
    spark_conf: SparkConf,
    shared_storage: SharedStorage = False,
    _hide_keys: HideKeys = False,
    log: LogOptions,
) -> None:
    """Run the jobs of a database until stopped with Ctrl-C (SQL Server Agent).

    The capture job starts with it. The cleanup job runs on its schedule, by default daily at 2:00 by this computer's
    clock; a missed run is made up. `rowtide cdc start-job` and `stop-job` take effect within a second or two.

    Subscriptions are delivered by `rowtide replication run`, a process of its own, which may run elsewhere.
    """
    request = spark_request(master, spark_conf, shared_storage=shared_storage)
    with requesting(request), watching("Starting the log reader ...", log, db, "agent") as stop:
        connect(db).run_agent(options=CaptureOptions(engine, rewrite_widened, max_latency), stop=stop)
