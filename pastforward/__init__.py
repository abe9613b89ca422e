"""Standing subscriptions over Kafka that see the past and the future."""
