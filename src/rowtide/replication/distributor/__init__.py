"""The distribution database: publications, subscriptions and history of delivery, read and written."""
