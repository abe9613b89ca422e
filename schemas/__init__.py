"""The contract: Avro schemas of every record on a topic, and codecs that work on whole chunks."""
