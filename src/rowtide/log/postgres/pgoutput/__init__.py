"""Decodes batches of pgoutput (protocol version 1, text) into log records: bytes in, Arrow out."""

from __future__ import annotations

from rowtide.log.postgres.pgoutput.decoder import Decoder
from rowtide.log.postgres.pgoutput.inferring import TableWanted

__all__ = ["Decoder", "TableWanted"]
