"""Devices that synchronise over HTTP: the server, tokens, limits, the wire protocol, and the client of a device."""
