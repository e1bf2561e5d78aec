"""Routes about the past: audit, time travel, export, subscriptions."""
