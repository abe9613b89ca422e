"""What a machine needs before the first broker and worker start: the jars of Kafka and Spark, and compiled kernels. Commands that need
them prepare them, with progress; `pastforward setup` does it ahead."""
