"""`constraints` (Tomasic et al.): each partition owns a condition; a record goes wherever its own condition intersects.

Where a record goes is itself a match, of the record against the conditions of the partitions. It is computed once for
each cell of a grid and then looked up. Along each attribute that the conditions name, the constants that they mention
cut the values into cells: the absent attribute, what compares with none of the constants, and for each type the
constants themselves and what lies between them. Within a cell every value satisfies the same conditions.

- A publication goes to the owners of the cells that it may be in; to all partitions if one of these has no owner.
- A subscription goes to the owners of the cells that a publication it matches may be in; if it has none, by its id to
  one partition. Under `intersect` an absent attribute matches anything, so that it goes to all.

So a pair that meets in an as_kernel cell meets at its owner, and a publication in any other cell is everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pastforward.columns.hashing import text_hash, text_hashes
from pastforward.columns.texts import as_kernel
from pastforward.matching.conditions.condition import Condition
from pastforward.matching.conditions.errors import ConditionError
from pastforward.matching.conditions.normal_form import ALWAYS, PREVIOUS, Constraint, Disjunct, NormalForm
from pastforward.streams.routing.catalog import Catalog, CatalogError, Type
from pastforward.streams.routing.cells import ABSENT, Axis
from pastforward.streams.routing.columns import (
    I32,
    I64,
    Placement,
    Publications,
    Subscriptions,
    entry_columns,
)
from pastforward.streams.routing.conditions import Names
from pastforward.streams.routing.grid_kernel import locate_rows, pack_grid
from pastforward.streams.routing.records import RoutedPublication, RoutedSubscription
from pastforward.streams.routing.scheme import Scheme
from pastforward.streams.routing.store_grid_kernel import pack_owners, store_cells

# A cell takes four bytes, and the conditions are tried on each of them once.
MAX_CELLS = 1_000_000

NOBODY = -1


class Constraints(Scheme):
    """The catalog has a condition for each partition: disjoint, and complete for values of the declared types.

    Without a catalog subscriptions go to all partitions, a publication to one.
    """

    name = "constraints"

    def __init__(self, partitions: int, catalog: Catalog | None) -> None:
        super().__init__(partitions)
        self.axes: list[Axis] = []
        if catalog is None:
            return
        if len(catalog.partitions) != partitions:
            raise CatalogError(
                f"the catalog has {len(catalog.partitions)} [[partition]] conditions, the topics have {partitions} "
                "partitions; write one condition for each"
            )
        conditions = [_parse(number, text) for number, text in enumerate(catalog.partitions)]
        self.axes = _axes(conditions, {attribute.name: attribute.type for attribute in catalog.attributes})
        if not self.axes and partitions > 1:
            raise CatalogError("the [[partition]] conditions name no attribute; write such as price < 100")
        shape = tuple(axis.size for axis in self.axes)
        if np.prod(shape, dtype=float) > MAX_CELLS:
            raise CatalogError(
                f"the [[partition]] conditions cut {len(self.axes)} attributes into {np.prod(shape, dtype=float):.0f} "
                f"cells; use fewer attributes or constants: at most {MAX_CELLS} cells"
            )
        self.owner: npt.NDArray[np.int32] = np.full(shape, NOBODY, np.int32)
        for number, condition in enumerate(conditions):
            for disjunct in condition:
                self._own(number, dict(disjunct))
        self._check_complete()
        self._flat = self.owner.reshape(-1)
        self._axis = {axis.name: number for number, axis in enumerate(self.axes)}
        self._grid = pack_grid(self.axes)
        self._runs = pack_owners(self.owner)
        self._names = Names(list(self._axis))

    def subscription(self, subscription: RoutedSubscription) -> tuple[int, ...]:
        if not self.axes or (subscription.semantics == "intersect" and subscription.condition):
            return self.everywhere
        symmetric = subscription.semantics == "symmetric"
        found: set[int] = set()
        for disjunct in subscription.condition:
            found |= self._owners(self._wanted(disjunct, symmetric))
        found.discard(NOBODY)
        return tuple(sorted(found)) or (text_hash(subscription.subscription_id) % self.partitions,)

    def publication(self, publication: RoutedPublication) -> tuple[int, ...]:
        if not self.axes:
            return (text_hash(publication.publication_id) % self.partitions,)
        found: set[int] = set()
        for disjunct in publication.condition if publication.condition is not None else ALWAYS:
            said = dict(disjunct)
            cells: list[Sequence[int]] = []
            for axis in self.axes:
                value = publication.attributes.get(axis.name)
                if value is not None:
                    cells.append([axis.of_value(value)])
                elif axis.name in said:
                    cells.append(axis.of_constraint(said[axis.name]))
                else:
                    cells.append([ABSENT])
            found |= self._owners(cells)
        if NOBODY in found:
            return self.everywhere
        return tuple(sorted(found)) or (text_hash(publication.publication_id) % self.partitions,)

    def route_publications(self, publications: Publications) -> Placement:
        if not self.axes:
            return super().route_publications(publications)
        rows = len(publications)
        numbers = np.array([self._axis.get(name, -1) for name in publications.attributes.names] or [-1], np.int32)
        cell = np.empty(rows, np.int64)
        locate_rows(self._grid, entry_columns(publications.attributes), numbers, cell)
        owner = np.where(cell < 0, NOBODY, self._flat[cell])
        # what the kernel cannot place, what nobody owns, what publishes a condition
        left = set(np.flatnonzero(owner == NOBODY).tolist()) | set(publications.conditions)
        placement = Placement(np.arange(rows + 1, dtype=np.int64), owner)
        return placement.replaced({row: self.publication(publications.row(row)) for row in sorted(left)})

    def route_subscriptions(self, subscriptions: Subscriptions) -> Placement:
        if not self.axes:
            return Placement.alike(self.everywhere, len(subscriptions))
        conditions = self._names.read(subscriptions.conditions)
        stored = as_kernel(subscriptions.semantics, np.uint8), text_hashes(subscriptions.ids)

        def store(row: int, start: I64, out: I32) -> Any:
            return store_cells(self._grid, self._runs, conditions, stored, self.partitions, row, start, out)

        return Placement.filled(len(subscriptions), self.partitions, store)

    def _wanted(self, disjunct: Disjunct, symmetric: bool) -> list[Sequence[int]]:
        """The cells in which a publication that the disjunct matches may be, along each axis."""
        said = dict(disjunct)
        cells: list[Sequence[int]] = []
        for axis in self.axes:
            constraint = said.get(axis.name)
            if constraint is None:
                # classical: nothing is asked of the attribute; symmetric: the publication must not name it
                cells.append([ABSENT] if symmetric else range(axis.size))
            elif symmetric:
                cells.append(sorted({ABSENT, *axis.of_constraint(constraint)}))
            else:
                cells.append(axis.of_constraint(constraint))
        return cells

    def _owners(self, cells: Sequence[Sequence[int]]) -> set[int]:
        return set(np.unique(self.owner[np.ix_(*cells)]).tolist())

    def _own(self, number: int, said: Mapping[str, Constraint]) -> None:
        cells = [axis.of_constraint(said[axis.name]) if axis.name in said else range(axis.size) for axis in self.axes]
        place = np.ix_(*cells)
        taken = self.owner[place]
        other = taken[(taken != NOBODY) & (taken != number)]
        if other.size:
            at = np.argwhere((taken != NOBODY) & (taken != number))[0]
            shared = " AND ".join(axis.describe(cells[i][at[i]]) for i, axis in enumerate(self.axes))
            raise CatalogError(
                f"partitions {other[0]} and {number} both own {shared}; take it from one of them", number
            )
        self.owner[place] = number

    def _check_complete(self) -> None:
        """Only values of the declared types must have an owner: a publication without the attribute goes everywhere."""
        cells = [axis.declared() for axis in self.axes]
        missing = np.argwhere(self.owner[np.ix_(*cells)] == NOBODY)
        if len(missing):
            gap = " AND ".join(axis.describe(cells[i][missing[0][i]]) for i, axis in enumerate(self.axes))
            raise CatalogError(f"no partition owns {gap}; add it to the condition of one, such as this", 0)


def _parse(number: int, text: str) -> NormalForm:
    try:
        return Condition.parse(text).disjuncts
    except ConditionError as error:
        raise CatalogError(f"the condition of [[partition]] {number}: {error}", number) from None


def _axes(conditions: Sequence[NormalForm], types: Mapping[str, Type]) -> list[Axis]:
    constraints: dict[str, list[Constraint]] = {}
    for condition in conditions:
        for disjunct in condition:
            for name, constraint in disjunct:
                if name.startswith(PREVIOUS):
                    raise CatalogError(f"{name} cannot divide the partitions; use attributes of the publication itself")
                constraints.setdefault(name, []).append(constraint)
    return [Axis(name, constraints[name], types.get(name)) for name in sorted(constraints)]
