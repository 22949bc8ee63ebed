"""The messages of a device's synchronisation over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rowtide.gateway.client import GatewayClient
from rowtide.gateway.requests import Done, More, MoreRequest
from rowtide.gateway.wire.envelopes import Envelope
from rowtide.merge.inspection.validating import ValidateAnswer, ValidateRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncAnswer, SyncRequest
from rowtide.merge.session.pending import PendingAtHub


@dataclass(slots=True)
class GatewayTransport:
    """See `DeviceTransport`."""

    client: GatewayClient

    def synchronise(
        self, request: SyncRequest, batches: Callable[[], Iterator[RowBatch]]
    ) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        answer = self.client.ask("sync", Envelope(request, list(batches())), SyncAnswer)
        return answer.message, answer.batches

    def follow(self, state: DeviceState) -> SchemaStep:
        step: SchemaStep = self.client.ask("follow", Envelope(state), SchemaStep).message
        return step

    def fetch(self, session: int, generation: int, first: int) -> Sequence[RowBatch]:
        return self.client.ask("more", Envelope(MoreRequest(session, generation, first)), More).batches

    def list_pending(self, state: DeviceState) -> PendingAtHub:
        found: PendingAtHub = self.client.ask("pending", Envelope(state), PendingAtHub).message
        return found

    def validate(self, request: ValidateRequest) -> ValidateAnswer:
        answer: ValidateAnswer = self.client.ask("validate", Envelope(request), ValidateAnswer).message
        return answer

    def acknowledge(self, said: Acknowledgement) -> None:
        self.client.ask("acknowledge", Envelope(said), Done)
