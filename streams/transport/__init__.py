"""Kafka as the workers reach it: Faust's consumer, aiokafka's producers, and reading a log back."""
