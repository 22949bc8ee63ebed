"""The gateway's HTTP server."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rowtide.gateway.answering import Answering
from rowtide.gateway.app import GatewayApp, Served
from rowtide.gateway.errors import CertificateNotRead, GatewayOpen
from rowtide.gateway.hubs import Hub, Workers
from rowtide.gateway.jwt_identity import Issuer
from rowtide.gateway.limits import DEFAULT_GATEWAY_LIMITS, GatewayLimits
from rowtide.gateway.tls import TlsOptions
from rowtide.listening import Address, bound_to, is_loopback, serving_app


@contextmanager
def serving_gateway(
    hubs: Mapping[str, Hub],
    listen: Address,
    tls: TlsOptions,
    *,
    limits: GatewayLimits = DEFAULT_GATEWAY_LIMITS,
    issuer: Issuer | None = None,
) -> Iterator[Address]:
    """Serve hubs until the block ends; yield where.

    Raises `GatewayOpen`, `CertificateNotRead`, `ListeningFailed`.
    """
    if tls.certificate is None and not tls.behind_proxy and not is_loopback(listen.host):
        raise GatewayOpen(listen.host)
    workers = Workers(limits.sessions)
    app = GatewayApp(Served(hubs, Answering(workers, issuer), limits, frozenset(tls.origins))).make()
    settings = {} if tls.certificate is None else {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
    _require_certificate(tls)
    with bound_to(listen) as bound, workers.running(), serving_app(app, bound, **settings) as address:
        yield address


def _require_certificate(tls: TlsOptions) -> None:
    if tls.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateNotRead(tls.certificate, error.strerror or str(error)) from error
