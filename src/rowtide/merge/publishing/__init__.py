"""Publications, articles and subscriptions: added, changed and dropped; snapshots; schema changes followed."""
