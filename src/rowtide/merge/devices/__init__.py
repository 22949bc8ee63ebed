"""Devices that synchronise over HTTP, as their hub knows them: registration codes, tokens, subscriptions."""
