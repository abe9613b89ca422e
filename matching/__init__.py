"""Decides: which subscriptions does a publication satisfy? Knows nothing of Kafka or disk."""
