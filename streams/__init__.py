"""Moves records: the router and the matcher, as Faust agents over Kafka."""


def compile_kernels() -> None:
    """Takes a minute the first time, a second after that."""
    from pastforward.streams.warm import compile_kernels as compile_all

    compile_all()
