"""Why a subscription and a publication did or did not match."""

from pastforward.streams.explain.explainer import Explainer, Verdict

__all__ = ["Explainer", "Verdict"]
