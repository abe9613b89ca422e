"""Moves records: the router and the matcher, as Faust agents over Kafka."""
