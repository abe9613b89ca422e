"""The router: checks input records, and sends them to the partitions where they meet."""
