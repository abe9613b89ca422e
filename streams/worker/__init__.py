"""The worker process: which partitions it is assigned, a task for each, fencing, transactions, recovery, and what is shown of it."""
