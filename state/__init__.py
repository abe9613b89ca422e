"""Remembers: subscriptions and publications in RocksDB, by Dewey key. Knows nothing of Kafka."""
