"""The gateway's HTTP server."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rowtide.core.addresses import Address
from rowtide.core.errors import FileNotWritable
from rowtide.gateway.app import GatewayApp, ServedHubs, describe_malformed
from rowtide.gateway.device_files import DeviceFiles
from rowtide.gateway.errors import CertificateNotRead, GatewayOpen
from rowtide.gateway.hub_requests import Answering, AuditedStep
from rowtide.gateway.hubs import Hub, Workers
from rowtide.gateway.jwt_identity import Issuer
from rowtide.gateway.limits import DEFAULT_GATEWAY_LIMITS, GatewayLimits, Places, Refusals, RequestMeter
from rowtide.gateway.tls import TlsOptions
from rowtide.listening import bound_to, is_loopback, serving_app

_KEPT_S = 75
"""Idle connections are kept longer than proxies keep theirs: else a proxy may send a request while its connection is
closed.
"""


@contextmanager
def serving_gateway(
    hubs: Mapping[str, Hub],
    listen: Address,
    tls: TlsOptions,
    *,
    limits: GatewayLimits = DEFAULT_GATEWAY_LIMITS,
    issuer: Issuer | None = None,
    waiting: Places | None = None,
    publications: Collection[str] = (),
    record: Callable[[AuditedStep], None] = lambda _step: None,
) -> Iterator[Address]:
    """Serve hubs until the block ends; yield the address.

    `waiting` counts the devices with a long poll, for metrics. Without `publications`, all are served. `record` writes
    entries of the audit, in the thread that did the work, before the device gets its answer.

    Raises `GatewayOpen`, `CertificateNotRead`, `ListeningFailed`, `FileNotWritable`.
    """
    if tls.certificate is None and not tls.behind_proxy and not is_loopback(listen.host):
        raise GatewayOpen(listen.host)
    _require_certificate(tls)
    workers = Workers(limits.sessions)
    with ExitStack() as opened:
        bound = opened.enter_context(bound_to(listen))
        folder = _make_folder(tls.files, opened)
        refusals = Refusals(RequestMeter(limits.refusals_per_minute, "refused tokens of its address"))
        answering = Answering(
            workers,
            DeviceFiles(folder),
            issuer,
            limits.rows,
            publications=frozenset(publications),
            record=record,
            note_known=refusals.note_known,
        )
        served = ServedHubs(hubs, answering, refusals, limits, frozenset(tls.origins), tls.behind_proxy)
        app = GatewayApp(served, waiting).make()
        settings = {} if tls.certificate is None else {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
        opened.callback(answering.downloads.close)
        opened.enter_context(workers.running())
        yield opened.enter_context(
            serving_app(app, bound, describe_malformed=describe_malformed, timeout_keep_alive=_KEPT_S, **settings)
        )


def _make_folder(path: str | None, opened: ExitStack) -> Path:
    if path is None:
        return Path(opened.enter_context(TemporaryDirectory(prefix="rowtide-gateway-")))
    try:
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileNotWritable(path, error.strerror or str(error)) from error
    return Path(path)


def _require_certificate(tls: TlsOptions) -> None:
    if tls.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateNotRead(tls.certificate, error.strerror or str(error)) from error
