"""PUBSUB, after Mishra and Sahni: subscriptions in attribute structures, level by level."""

from pastforward.papers.pubsub.algorithm import PubSub

__all__ = ["PubSub"]
