"""The wire protocol: envelopes, batches of rows, values as JSON, and errors as problem documents."""
