"""The options that the configuration file may give, as `scripts/option_names.py` finds them in the commands.

They are kept here because a command imports no module of other commands.
"""

from __future__ import annotations

_NAMES = """
abandon-original absent-is-delete again algorithm all allow-actions apply-as-deletes article as at audience
auth-header before-images behind-proxy cancel capture-instance catalog catalog-option certificate checksum choice
closed-high-end-point cluster-by code-hours column column-list column-tracking columns commit-batch-size
commit-batch-threshold compensate-for-errors config-file conflict-retention conflicts constraints consumer csn days db
delete-command delete-extra device-claim device-series difference differences distribution-db docs dry-run engine
except exchange-type exclude-context existing expiration-threshold file file-mb file-seconds files folder
follow-columns force format forward from from-claims from-log-store group header-env hide-keys host host-name
host-name-claim identity-range idle-timeout if-exists ignore-subscriber index insert-command instances issuer join
jwks keep keep-days key key-updates kind lake latency-threshold limit limit-hours listen log-destination log-format
log-level log-store login low-water-mark lsn master max-age-days max-body-bytes max-body-seconds max-device-requests
max-latency max-refusals-per-minute max-request-seconds max-requests-per-minute max-retention-hours max-row-bytes
max-rows max-sessions max-unpacked-bytes max-upload-bytes max-upload-rows max-waiting maxscans maxtrans metrics-file
metrics-listen metrics-open min-age-days moved-partitions net net-changes no-where node on-unseen-children operators
options origin out over-later-changes partition-by partition-options partition-realignment path pause post priority
prune publication publisher-identity-range python reason record-conflict-detection record-conflict-resolution
register-for rename renumber repair replace replicate-ddl resolver resume retention retention-days rewrite-widened
role row-filter rows rows-per-second run-as schedule schema seconds shared-storage show-values since skip skip-errors
snapshot soft-delete source-name source-schema spark-conf sql sql-server-defaults state statement-timeout storage
streams subscriber subscriber-upload-options suser-name-claim switch sync-type table table-property threshold to
token-file track-history track-history-except truncate trusted-proxy type unique-key update-command update-flag-list
upload upload-first url user wait wait-seconds where whole wide widened winner with-new-tables workers writable
"""
OPTION_NAMES = frozenset(_NAMES.split())
_OF_GATEWAY = """
algorithm audience behind-proxy certificate db device-claim files host-name-claim issuer jwks key listen
log-destination log-format log-level max-body-bytes max-body-seconds max-device-requests max-refusals-per-minute
max-request-seconds max-requests-per-minute max-rows max-sessions max-unpacked-bytes max-waiting metrics-file
metrics-listen metrics-open origin publication register-for suser-name-claim
"""
GATEWAY_OPTION_NAMES = frozenset(_OF_GATEWAY.split())
