"""How replication stands in a publisher: read from its database and the log store, asking no subscriber.

Commands print it, `rowtide.diagnosis` checks it.
"""

from __future__ import annotations

from rowtide.replication.status.articles import ArticlesStatus, read_articles_status
from rowtide.replication.status.subscriptions import (
    DeliveryStatus,
    SubscriptionDelivery,
    SubscriptionStatus,
    list_delivered_here,
    list_left_prepared,
    read_delivery_status,
    read_status,
)

__all__ = [
    "ArticlesStatus",
    "DeliveryStatus",
    "SubscriptionDelivery",
    "SubscriptionStatus",
    "list_delivered_here",
    "list_left_prepared",
    "read_articles_status",
    "read_delivery_status",
    "read_status",
]
