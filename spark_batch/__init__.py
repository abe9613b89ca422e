"""The batch layer: history kept, compacted and searched with PySpark."""
