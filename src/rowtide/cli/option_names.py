"""The options that the configuration file may give, as `scripts/option_names.py` finds them in the commands.

They are kept here because a command imports no module of other commands.
"""

from __future__ import annotations

_NAMES = """
abandon-original absent-is-delete again all allow-actions apply-as-deletes article as at auth-header before-images
cancel capture-instance catalog catalog-option checksum choice closed-high-end-point cluster-by column column-list
column-tracking columns commit-batch-size commit-batch-threshold compensate-for-errors config-file conflict-retention
conflicts constraints consumer csn days db delete-command delete-extra device-series difference differences
distribution-db docs dry-run engine except exchange-type exclude-context existing expiration-threshold file file-mb
file-seconds folder follow-columns force format forward from from-log-store group header-env hide-keys host host-name
identity-range idle-timeout if-exists ignore-subscriber index insert-command instances join keep key key-updates kind
lake latency-threshold limit limit-hours listen log-destination log-format log-level log-store login low-water-mark
lsn master max-age-days max-latency max-retention-hours max-row-bytes max-upload-bytes max-upload-rows maxscans
maxtrans metrics-file metrics-listen min-age-days moved-partitions net net-changes no-where node on-unseen-children
operators options out over-later-changes partition-by partition-options partition-realignment path pause post priority
prune publication publisher-identity-range python reason record-conflict-detection record-conflict-resolution rename
renumber repair replicate-ddl resolver resume retention retention-days rewrite-widened role row-filter rows
rows-per-second run-as schedule schema seconds shared-storage show-values since skip skip-errors snapshot soft-delete
source-name source-schema spark-conf sql sql-server-defaults state statement-timeout storage streams subscriber
subscriber-upload-options switch sync-type table table-property threshold to token-file track-history
track-history-except truncate trusted-proxy type unique-key update-command update-flag-list upload upload-first user
wait wait-seconds where whole wide widened winner with-new-tables workers writable
"""
OPTION_NAMES = frozenset(_NAMES.split())
