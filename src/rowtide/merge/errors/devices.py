"""Errors of devices that synchronise over HTTP, and of their codes and tokens."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound


class DeviceUnknown(NotFound, number=8400):
    """The hub has no device of a name."""

    fact = "there is no device {name}"
    hint = """`rowtide merge devices` lists those that there are; `rowtide merge add-device NAME --publication
        PUBLICATION` adds one."""
    name: str


class DeviceExists(AlreadyExists, number=8401):
    """The hub has a device of the name already."""

    fact = "there is a device {name} already"
    hint = "Choose another name; `rowtide merge rotate-token {name}` gives the device a new registration code."
    name: str


class CodeRefused(Denied, number=8402):
    """A registration code cannot be exchanged for a token."""

    fact = "the registration code is refused: {reason}"
    hint = """Have `rowtide merge rotate-token NAME` print a new one at the hub. If nobody registered this device,
        somebody else has its code: run `rowtide merge revoke-device NAME` there first."""
    reason: str


class TokenRefused(Denied, number=8403):
    """A request has no token that is in force."""

    fact = "the token is refused: {reason}"
    hint = "Register the device with a new code, which `rowtide merge rotate-token NAME` prints at the hub."
    reason: str


class DeviceRevoked(Denied, number=8404):
    """The device's token was revoked. What was changed on the device stays there."""

    fact = "device {name} was revoked at {at}"
    hint = """Its changes stay in its file. `rowtide merge rotate-token {name}` at the hub lets it register again, and
        upload them; to discard them, remove the file."""
    name: str
    at: str


class TokenOfAnother(Denied, number=8405):
    """A token is valid for another publication than the one that is asked for."""

    fact = "device {name} has no token for publication {publication}"
    hint = "Synchronise the publication that the device was added for; one device has one publication."
    name: str
    publication: str


class DeviceFileDiffers(Denied, number=8406):
    """A token is used with a file that has another subscription than the device's."""

    fact = "device {name} synchronises another file"
    hint = """A token belongs to one file. Add a device for this one by `rowtide merge add-device NAME
        --publication PUBLICATION`; if the other file is
        gone for good, drop its subscription first."""
    name: str


class HoursRefused(Invalid, number=8407):
    """A registration code or a former token is to be in force for no time, or too long."""

    fact = "{hours} hours are no time for a code or token"
    hint = "Give a number of hours above 0, at most 8,760."
    hours: float
