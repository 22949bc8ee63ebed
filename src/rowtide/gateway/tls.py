"""How a gateway is reached: TLS, proxies, other origins (CORS). Light, for the command line."""

from __future__ import annotations

from typing import Annotated

from rowtide.core.options import Option
from rowtide.core.values import frozen


@frozen(kw_only=True)
class TlsOptions:
    """Options for TLS, proxies, other origins, and the folder of devices' files."""

    certificate: Annotated[
        str | None, Option(metavar="FILE", help="The certificate's chain in PEM, for TLS by the gateway itself.")
    ] = None
    key: Annotated[str | None, Option(metavar="FILE", help="The certificate's private key in PEM.")] = None
    behind_proxy: Annotated[
        bool, Option("--behind-proxy", help="Another machine has TLS: take requests without it from the network.")
    ] = False
    origins: Annotated[
        tuple[str, ...],
        Option(
            "--origin",
            metavar="ORIGIN",
            help="Of pages that may use the gateway, as https://app.example. May be repeated.",
        ),
    ] = ()
    files: Annotated[
        str | None,
        Option(
            "--files",
            metavar="FOLDER",
            help="Where the first files of devices are kept for a week; gateways of one hub share it.",
            show_default="a folder that goes with the process",
        ),
    ] = None
