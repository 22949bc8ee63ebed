"""Errors of devices that synchronise over HTTP, at the gateway and at the device."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound, Retryable, RowtideError
from rowtide.merge.errors.subscribing import TooLargeAtOnce


class ProtocolUnknown(Invalid, number=8410):
    """Gateway and device have no version of the wire protocol in common."""

    fact = "a message has version {given} of the wire protocol; {spoken} is spoken here"
    hint = "Upgrade rowtide on the side that is older."
    given: str
    spoken: str


class MessageMalformed(Invalid, number=8411):
    """A message is not what the wire protocol says."""

    fact = "a message is malformed at {place}: {reason}; this side speaks version {spoken} of the wire protocol"
    hint = "docs/reference/wire-protocol.md describes all messages; no part of this one was applied."
    place: str
    reason: str
    spoken: str


class BodyTooLarge(TooLargeAtOnce, number=8412):
    """A request, or what it unpacks to, is larger than the gateway takes."""

    fact = "the request exceeds {limit}"
    hint = "Send smaller batches; the gateway's operator can raise the limit by an option of `rowtide gateway serve`."
    limit: str


class TooManyRequests(Retryable, number=8413):
    """A device sends more requests, or synchronises more often at once, than the gateway takes."""

    fact = "the device exceeds {limit}"
    hint = "It is tried again after {after_s} seconds."
    limit: str
    after_s: float


class GatewayBusy(Retryable, number=8414):
    """The gateway has as many synchronisations at once as it takes, or is about to stop."""

    fact = "the gateway is busy: {reason}"
    hint = "It is tried again after {after_s} seconds."
    reason: str
    after_s: float


class SenderTooSlow(Retryable, number=8415):
    """A request came in slower than the gateway waits for."""

    fact = "the request took longer than {limit_s} seconds to come in"
    hint = "Try again on a faster network; what was confirmed stays confirmed."
    limit_s: float


class HubNotReached(Retryable, number=8416):
    """The gateway cannot reach the hub's database; its own log says why."""

    fact = "the gateway cannot reach the database of hub {hub}"
    hint = "Try again later; the gateway's operator finds the reason in its log."
    hub: str


class GatewayAddressUnknown(NotFound, number=8417):
    """The gateway has no such hub or publication, or no such address."""

    fact = "the gateway has nothing at {path}"
    hint = "Give the address as its operator says: https://host/HUB."
    path: str


class RangeNotThere(Invalid, number=8445):
    """A range of a file begins behind the file's end."""

    fact = "the file has {size} bytes; the range begins behind them"
    hint = "Remove what was fetched of the file, and fetch it from its beginning."
    size: int


class PublicationNotServed(Denied, number=8444):
    """The gateway serves some publications of a hub, and not that of the device."""

    fact = "this gateway does not serve publication {publication}"
    hint = "Use the address of a gateway that does; its operator lists publications by --publication."
    publication: str


class OriginNotListed(Denied, number=8418):
    """A page of an origin that the configuration does not list asks the gateway."""

    fact = "origin {origin} is not listed"
    hint = "The gateway's operator lists origins by --origin."
    origin: str


class GatewayFailed(Retryable, number=8419):
    """The gateway failed with an error that is not disclosed to devices."""

    fact = "the gateway failed: it has logged the reason as {incident}"
    hint = "It is tried again; tell the gateway's operator if that does not help."
    incident: str


class GatewayNotReached(Retryable, number=8420):
    """The gateway cannot be reached, or does not answer."""

    fact = "the gateway at {url} cannot be reached: {reason}"
    hint = "Check the address and the network; offline changes stay on the device until it is reached."
    url: str
    reason: str


class AnswerNotOfGateway(Retryable, number=8421):
    """Something else than a gateway has answered, as the sign-in page of a network does."""

    fact = "what answers at {url} is no gateway of rowtide: status {status}, {content_type}"
    hint = "Sign in to the network, or correct the address."
    url: str
    status: int
    content_type: str


class AnswerTruncated(Retryable, number=8422):
    """An answer ended early, or is damaged; nothing of it was applied."""

    fact = "the answer of {url} is incomplete: {reason}"
    hint = "It is requested again."
    url: str
    reason: str


class GatewayUrlInvalid(Invalid, number=8423):
    """The text is no address of a gateway."""

    fact = "{url} is no address of a gateway: {reason}"
    hint = "Write https://host/HUB; http:// is taken for this machine alone."
    url: str
    reason: str


class GatewayRefused(RowtideError, number=8424):
    """A gateway of a later version refuses a request with an error that this version does not know."""

    fact = "the gateway refuses with {code}: {problem}"
    hint = "Do what it says, or upgrade rowtide on this device."
    code: str
    problem: str


class JwtRefused(Denied, number=8426):
    """A JSON Web Token is not valid for this gateway."""

    fact = "the JSON Web Token is refused: {reason}"
    hint = "Sign in again; if that does not help, the gateway expects another issuer or audience."
    reason: str


class RegistrationNeedsCode(Denied, number=8185):
    """A device registers by the JSON Web Token of its user alone, and the gateway takes codes only."""

    fact = "devices are not registered here by a JSON Web Token alone"
    hint = "Register with the code that the hub's operator prints; or have a publication named by --register-for."


class DeviceClaimMissing(Denied, number=8186):
    """A JSON Web Token lacks the claim that names the device which it registers."""

    fact = "the JSON Web Token has no text as its claim {claim}, which names the device"
    hint = "Have the issuer add the claim, or name another one by --device-claim of the gateway."
    claim: str


class ClaimMissing(Denied, number=8427):
    """A JSON Web Token lacks a claim by which the publication is filtered."""

    fact = "the JSON Web Token has no text as its claim {claim}, from which {function}() is taken"
    hint = (
        "Have the issuer add the claim, or name another one by --host-name-claim or --suser-name-claim of the gateway."
    )
    claim: str
    function: str


class ClaimsOlder(Denied, number=8428):
    """A JSON Web Token has other values than a later one by which the device was moved."""

    fact = "the JSON Web Token was issued at {issued}, before the one by which device {device} was moved"
    hint = "Sign in again: the token is replaced by one with the present claims."
    device: str
    issued: str


class KeySetNotRead(Retryable, number=8429):
    """The keys of the issuer of JSON Web Tokens cannot be read."""

    fact = "the key set {place} cannot be read: {reason}"
    hint = "Correct --jwks, or have the issuer's address reached from here."
    place: str
    reason: str


class NothingToServe(Invalid, number=8430):
    """A gateway is started without a hub."""

    fact = "there is no hub to serve"
    hint = "Give the hub's database with --db, or its name in the configuration file; several by repeating it."


class GatewayOpen(Denied, number=8431):
    """A gateway without TLS would be reached by others: tokens would be readable on the network."""

    fact = "a gateway without TLS on {host} sends tokens in the clear"
    hint = """Give --certificate and --key; or listen on 127.0.0.1 behind a proxy that has TLS; or, if the proxy is on
        another machine of a closed network, add --behind-proxy."""
    host: str


class CertificateNotRead(Invalid, number=8432):
    """The certificate of the gateway, or its key, cannot be used."""

    fact = "the certificate {path} cannot be used: {reason}"
    hint = "Give PEM files: the chain with --certificate, its private key with --key."
    path: str
    reason: str


class MethodNotThere(Invalid, number=8433):
    """An address of the gateway is asked with another method than it takes."""

    fact = "{path} does not take {method}"
    hint = "docs/reference/wire-protocol.md says which method each address takes."
    path: str
    method: str


class DeviceMoved(Retryable, number=8435):
    """A user with other claims uses the device: what the one before left is uploaded, and the partition changed."""

    fact = "device {device} was moved to the partition of the JSON Web Token"
    hint = "Its changes are uploaded. The request is repeated, and brings the rows of the new partition."
    device: str


class HubTwice(Invalid, number=8436):
    """Two hubs of a gateway have one name."""

    fact = "two hubs are named {name}"
    hint = "Name them in the configuration file, and give these names with --db."
    name: str


class IssuerIncomplete(Invalid, number=8425):
    """An issuer of JSON Web Tokens is given without what its tokens are judged by."""

    fact = "--issuer is given without {option}"
    hint = "Give --issuer, --audience and --jwks together."
    option: str


class AlgorithmRefused(Invalid, number=8437):
    """An algorithm of signatures is none, or one whose key both sides would have to keep secret."""

    fact = "{algorithm} is no algorithm for JSON Web Tokens that a gateway takes"
    hint = "Name one or several of {known}."
    algorithm: str
    known: str


class DeviceHasFile(Denied, number=8439):
    """A device that has synchronised a file asks for a new one."""

    fact = "device {name} has a file already, which has synchronised"
    hint = """Put that file back. If it is lost, repeat the command with --replace: a new file has all rows, and what
        was changed in the lost one since its last synchronisation is gone."""
    name: str


class FileBeingMade(Retryable, number=8440):
    """The first file of a device is being made by another request."""

    fact = "the device's file is being made"
    hint = "It is asked for again after {after_s} seconds."
    after_s: float


class DeviceFileDamaged(Retryable, number=8441):
    """A downloaded file is not what the gateway said."""

    fact = "the file that {url} sent has other contents than it said"
    hint = "It is removed, and fetched again by the next attempt."
    url: str


class DeviceNotRegistered(Denied, number=8438):
    """A device has no token yet."""

    fact = "the device of {path} has no token"
    hint = "Run `rowtide merge sync --url URL --subscriber {path} --code CODE` with the code that its hub has printed."
    path: str


class PublicationUnclear(Invalid, number=8442):
    """A file subscribes to several publications, or to none, and nothing says which is meant."""

    fact = "{path} subscribes to {publications}"
    hint = "Name one of the publications that it subscribes to."
    path: str
    publications: str
