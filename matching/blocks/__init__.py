"""Blocks behind boxes: 32 subscriptions tested at once, in leaves that publications reach through hash tables and boxes."""
