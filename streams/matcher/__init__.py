"""The matcher: what a rendezvous partition does with its log, in chunks."""
