"""`/v1/explain`, `/v1/try`, `/v1/conditions`, `/v1/status`, `/v1/best-offers`: questions that change nothing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from starlette.responses import Response

from pastforward.client import BestOffer
from pastforward.client.fields import record_fields, trial_fields
from pastforward.client.status import look
from pastforward.client.trial import Trial
from pastforward.gateway.api.times import instant_of
from pastforward.gateway.context import Asked, answer
from pastforward.gateway.problems import Problem, not_found
from pastforward.matching import Condition

QUIET: Final = 0.5  # seconds without an offer: then all that stand have been read
MISSES: Final = 20
EXAMPLES: Final = 100


async def explain(asked: Asked) -> Response:
    return answer(asdict(await explained(asked, asked.required("subscription_id"), asked.required("publication_id"))))


async def explained(asked: Asked, subscription_id: str, publication_id: str) -> Any:
    """Others' subscriptions and publications are not explained."""
    from pastforward.streams.explain import Explainer  # the streams take a second to import

    gateway, identity = asked.gateway, asked.identity
    if not identity.is_open:
        found = gateway.standings.get(subscription_id)
        if found is None or not identity.sees(found):
            raise not_found(f"there is no subscription {subscription_id!r}: withdrawn, or never sent")
        publication = await gateway.call_dear(gateway.client.publication, publication_id)
        if publication is None or not identity.sees_publication(publication.topic, publication_id):
            raise not_found(f"there is no publication {publication_id!r} on the topic, which keeps a week")
    explainer = Explainer(gateway.settings, gateway.client.bootstrap_servers, gateway.client.registry)
    return await gateway.call_dear(explainer.explain, subscription_id, publication_id)


async def try_(asked: Asked) -> Response:
    found = await tried(asked, await asked.object())
    return answer(trial_fields(found))


TRIED: Final = {"where", "topic", "scope", "semantics", "since", "examples"}


async def tried(asked: Asked, fields: dict[str, Any]) -> Trial:
    unknown = fields.keys() - TRIED
    if unknown:
        raise Problem(400, "bad-request", f"{min(unknown)} is nothing to try: write {', '.join(sorted(TRIED))}")
    given = {name: each for name, each in fields.items() if each is not None}
    given["since"] = instant_of(given.get("since"), "since")
    examples = given.get("examples", 5)
    if not isinstance(examples, int) or not 0 <= examples <= EXAMPLES:
        raise Problem(400, "bad-request", f"examples is {examples!r}: write a whole number from 0 to {EXAMPLES}")
    topic = given.get("topic", "")
    if not isinstance(topic, str):
        raise Problem(400, "bad-request", f"topic is {topic!r}: write a path such as 1.4.2")
    asked.identity.check_read(topic)
    _check_choice(given, "scope", "overlap", "subtree")
    _check_choice(given, "semantics", "classical", "symmetric", "intersect")
    where = given.pop("where", None)
    return await asked.gateway.call_dear(asked.gateway.client.try_condition, where, **given)


def _check_choice(given: dict[str, Any], name: str, *choices: str) -> None:
    if given.get(name, choices[0]) not in choices:
        raise Problem(400, "bad-request", f"{name} is {given[name]!r}: write one of {', '.join(choices)}")


async def condition(asked: Asked) -> Response:
    """What a text means, or what is wrong with it and where."""
    where = (await asked.object()).get("where")
    if not isinstance(where, str):
        raise Problem(400, "bad-request", f"where is {where!r}: write a text such as \"kind = 'accident'\"")
    found = await asked.gateway.call(Condition.parse, where)
    return answer({"normal_form": str(found), "cost": found.cost._asdict(), "needs_previous": found.needs_previous})


async def status(asked: Asked) -> Response:
    found = await asked.gateway.call(look, asked.gateway.settings, asked.gateway.client)
    fields = asdict(found)
    if not asked.identity.is_open:
        del fields["bootstrap"], fields["workers"]  # addresses inside
        fields["workers"] = [f"worker {number}" for number, _ in enumerate(found.workers, 1)]
    return answer({**fields, "trouble": found.trouble, "listeners": len(asked.gateway.hub.listeners)})


async def best_offers(asked: Asked) -> Response:
    found = await offers(asked, asked.text("publication_id"))
    return answer({"best_offers": [record_fields(each) for each in found]})


async def offers(asked: Asked, publication_id: str | None = None) -> list[BestOffer]:
    """As they stand: the last of each auction. Of one's own lots, and those that one holds."""

    def read() -> list[BestOffer]:
        found: dict[tuple[str, str], BestOffer] = {}
        for each in asked.gateway.client.best_offers(publication_id, timeout=QUIET):
            found[each.publication_id, each.topic] = each
        return list(found.values())

    identity = asked.identity
    return [
        each
        for each in await asked.gateway.call_dear(read)
        if identity.is_open or identity.owns_id(each.publication_id) or each.subscriber_id == identity.name
    ]
