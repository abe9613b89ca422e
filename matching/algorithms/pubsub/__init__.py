"""PUBSUB, after Mishra and Sahni: subscriptions in attribute structures, level by level."""

from matching.algorithms.pubsub.algorithm import PubSub

__all__ = ["PubSub"]
