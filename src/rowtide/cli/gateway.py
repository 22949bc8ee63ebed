"""`rowtide gateway`: devices synchronise over HTTP."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Annotated

from rowtide.cli.active_configuration import database_url
from rowtide.cli.groups import CommandTable
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import watching
from rowtide.core.exports import naming_extras
from rowtide.core.options import Option
from rowtide.events.configuration import LogOptions
from rowtide.gateway.issuers import IssuerOptions
from rowtide.gateway.limits import GatewayLimits, Places
from rowtide.gateway.tls import TlsOptions
from rowtide.systemd import ServiceManager

if TYPE_CHECKING:
    from rowtide.gateway.hub_requests import AuditedStep

app = CommandTable()
_BEAT_S = 1.0

ServedDb = Annotated[
    list[str],
    Option(
        "--db",
        metavar="URL",
        help="A hub's database, or its name in the configuration file, which is then a part of its address; may be "
        "repeated. Default: the one in ROWTIDE_DB.",
        show_default=False,
    ),
]


def record_step(done: AuditedStep) -> None:
    """Write an action of a gateway for a device to the audit of the hub. Raises as `recording`."""
    from uuid import NAMESPACE_URL, uuid5

    from rowtide.actions.database_actions import recording
    from rowtide.actions.entries import ActionRequest, Channel, DeviceAction

    request = ActionRequest.make(
        DeviceAction(f"gateway {done.step}"),
        {"name": done.device, "replaces": done.replaces},
        actor=f"device {done.device}",
        channel=Channel.GATEWAY,
        # A repeated request makes the same entry; the key is random, and cannot be recovered from its digest.
        action_id=str(uuid5(NAMESPACE_URL, f"{done.device_id}/{done.step}/{done.key}")),
    )
    with recording(done.hub.url, request):
        pass


@app.command(epilog="Example: rowtide gateway serve --db shop --listen 127.0.0.1:8090")
def serve(
    db: ServedDb,
    address: Annotated[str, Option("--listen", metavar="HOST:PORT", help="Where it listens.")] = "127.0.0.1:8090",
    *,
    publication: Annotated[
        list[str],
        Option("--publication", metavar="NAME", help="Serve this publication alone; may be repeated. Default: all."),
    ],
    tls: TlsOptions,
    issuer: IssuerOptions,
    limits: GatewayLimits,
    metrics: MetricsOptions,
    log: LogOptions,
) -> None:
    """Let devices synchronise with hubs over HTTP, until stopped: they need an address and a token, no database login.

    `rowtide merge add-device` makes a device's registration code. The address that devices are given is
    https://HOST/HUB, HUB being the database's name. /healthz answers while the gateway works, /readyz says whether each
    hub's database answers. The section [gateway] of the configuration file has its options.
    """
    with naming_extras():
        import rowtide.errors  # noqa: F401 - devices get any error
        from rowtide.core.addresses import Address
        from rowtide.gateway.http_server import serving_gateway
        from rowtide.gateway.hubs import name_hubs
        from rowtide.gateway.jwt_identity import make_issuer

    given = db or [url for url in (os.environ.get("ROWTIDE_DB", ""),) if url]
    hubs = name_hubs(given, database_url)
    manager = ServiceManager.from_environment(os.environ, os.getpid())
    waiting = Places(limits.waiting, "waiting devices")
    with (
        watching("Serving ...", log, "", "gateway", manager=manager) as stop,
        measuring(metrics, "", "gateway", lambda: {"rowtide_gateway_waiting_devices": float(waiting.taken)}),
        serving_gateway(
            hubs,
            Address.parse(address),
            tls,
            limits=limits,
            issuer=make_issuer(issuer),
            waiting=waiting,
            publications=publication,
            record=record_step,
        ) as bound,
    ):
        scheme = "http" if tls.certificate is None else "https"
        _beat_until(stop, manager, f"Serving {', '.join(f'{scheme}://{bound}/{name}' for name in hubs)}")


def _beat_until(stop: threading.Event, manager: ServiceManager, status: str) -> None:
    """Tell people and the service manager the status, and the manager then that this process works, until stopped."""
    notes.print(status, soft_wrap=True)
    manager.report_status(status)
    while not stop.wait(_BEAT_S):
        manager.beat()
