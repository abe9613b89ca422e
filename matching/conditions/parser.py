"""From the parser's tree to disjuncts of atoms, before any constant is known.

Negation is pushed inwards to the predicates, where it becomes another predicate: `NOT x < 3` is `x >= 3`. That is true to
the logic of SQL, in which a predicate on an absent attribute (or one of another type) is unknown, and so is its negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pastforward.columns.vocabulary import NEGATED
from pastforward.matching.conditions.errors import ConditionError
from pastforward.matching.conditions.lexer import Operand, Tokens
from pastforward.matching.conditions.limits import MAX_DISJUNCTS, MAX_PREDICATES
from pastforward.matching.conditions.normal_form import Family
from pastforward.matching.conditions.predicates import FAMILY_NAMES, takes

# Those of texts without regard to case stand in SQL alone: what they build is a regular expression.
_NEGATED: Final = {
    **NEGATED,
    **{operator: f"not {operator}" for operator in ("ilike", "folded")},
    **{f"not {operator}": operator for operator in ("ilike", "folded")},
}


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate whose constants are still slots. `escape` belongs to `like`."""

    attribute: str
    operator: str
    family: Family = Family.ANY
    operands: tuple[Operand, ...] = ()
    escape: Operand | None = None
    boolean: bool = False  # the value of `=` on a boolean

    def negated(self) -> Tree:
        if self.family is Family.BOOLEAN:
            return replace(self, boolean=not self.boolean)
        if self.family is Family.PATH and self.operator == "within":
            # Before the subtree, or after it.
            return Or([replace(self, operator="<"), replace(self, operator="after subtree")])
        if self.operator == "between":
            low, high = self.operands
            return Or([replace(self, operator="<", operands=(low,)), replace(self, operator=">", operands=(high,))])
        return replace(self, operator=_NEGATED[self.operator])


@dataclass(slots=True)
class And:
    parts: list[Tree]


@dataclass(slots=True)
class Or:
    parts: list[Tree]


@dataclass(slots=True)
class Not:
    part: Tree


Tree = Atom | And | Or | Not

TRUE: Final = And([])
FALSE: Final = Or([])

_COMPARISONS: Final = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HINT: Final = "Write predicates such as x >= 3, joined by AND, OR and NOT"
_FUNCTIONS: Final = {
    "f_overlaps": "overlaps",
    "f_contains": "contains",
    "f_within": "within",
    "f_matches": "matches",
}


def parse(text: str, tokens: Tokens) -> Tree:
    """The tree of a condition. Raises `ConditionError`."""
    try:
        parsed = sqlglot.parse(tokens.text)
    except SqlglotError as error:
        raise _syntax_error(text, tokens, error) from error
    if len(parsed) != 1 or parsed[0] is None:
        raise ConditionError("there is no condition", "Write TRUE for one that always holds", text=text, position=0)
    _check_names(text, tokens, parsed[0])
    return _Reader(text, tokens).tree(parsed[0])


def _check_names(text: str, tokens: Tokens, root: Any) -> None:
    """The tree has each attribute and each constant once. In `x BETWEEN 1 IN y` the parser takes a keyword for a name."""
    attributes: list[str] = []
    operands: list[str] = []
    for node in root.walk():
        if isinstance(node, exp.Column):
            attributes.append(node.name)
        elif isinstance(node, exp.Literal):
            operands.append(node.name)
    known = sorted(f"a{number}" for number in range(len(tokens.attributes)))
    if sorted(attributes) != known or sorted(operands) != sorted(map(str, range(len(tokens.operands)))):
        raise ConditionError("this cannot be read as a condition", _HINT, text=text, position=0)


def _syntax_error(text: str, tokens: Tokens, error: SqlglotError) -> ConditionError:
    details = getattr(error, "errors", None) or [{}]
    column = details[0].get("col")
    if details[0].get("description", "").startswith("Required keyword"):
        position = (
            len(text.rstrip()) if column is None or column >= len(tokens.text.rstrip()) else tokens.position(column)
        )
        problem = "something is missing here"
    else:
        position = 0 if column is None else tokens.position(column - 1)
        problem = "this cannot be read as a condition"
    return ConditionError(problem, _HINT, text=text, position=position)


def _as_text(name: str) -> str:
    """How the text is written that a name was perhaps meant to be."""
    return "'" + name.replace("'", "''") + "'"


class _Reader:
    """Checks the parser's tree and turns it into ours. Depth is bounded by the lexer; chains of AND and OR are flattened."""

    def __init__(self, text: str, tokens: Tokens) -> None:
        self._text = text
        self._tokens = tokens

    def tree(self, node: Any) -> Tree:
        node = _unwrapped(node)
        if isinstance(node, exp.And):
            return And([self.tree(part) for part in _flat(node, exp.And)])
        if isinstance(node, exp.Or):
            return Or([self.tree(part) for part in _flat(node, exp.Or)])
        if isinstance(node, exp.Not):
            return Not(self.tree(node.this))
        if isinstance(node, exp.Boolean):
            return TRUE if node.this else FALSE
        if isinstance(node, exp.Column):
            return Atom(self._attribute(node, node), "=", Family.BOOLEAN, boolean=True)
        for kind, operator in _COMPARISONS.items():
            if isinstance(node, kind):
                return self._comparison(operator, node)
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Escape | exp.Like | exp.ILike):
            return self._like(node)
        if isinstance(node, exp.RegexpLike):
            return self._binary("matches", node.this, node.expression, node)
        if isinstance(node, exp.Overlaps):
            return self._relation(node)
        if isinstance(node, exp.Anonymous) and node.name in _FUNCTIONS:
            if len(node.expressions) != 2:
                name = _FUNCTIONS[node.name]
                raise self._error(f"{name} takes two arguments", f"Write {name}(attribute, constant)", node)
            attribute, constant = node.expressions
            return self._binary(_FUNCTIONS[node.name], attribute, constant, node)
        if isinstance(node, exp.Anonymous) and node.name == "f_lower":
            raise self._error("LOWER(x) is no condition", "Write LOWER(x) = '…'", node)
        if isinstance(node, exp.Literal | exp.Null):
            raise self._error("a constant is no condition", "Compare an attribute with it", node)
        raise self._error("this is not part of conditions", _HINT, node)

    def _error(self, problem: str, hint: str, node: Any) -> ConditionError:
        return ConditionError(problem, hint, text=self._text, position=self._position(node))

    def _position(self, node: Any) -> int:
        """Where the first name or constant below the node stands."""
        found = []
        for part in node.walk():
            if isinstance(part, exp.Column):
                found.append(self._tokens.attribute_positions[int(part.name[1:])])
            elif isinstance(part, exp.Literal):
                found.append(self._operand(part).position)
        return min(found, default=0)

    def _operand(self, node: Any) -> Operand:
        return self._tokens.operands[int(node.this)]

    def _attribute(self, node: Any, whole: Any) -> str:
        node = _unwrapped(node)
        if isinstance(node, exp.Column):
            return self._tokens.attributes[int(node.name[1:])]
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null):
            raise self._error("an attribute is missing here", "Write the name of an attribute on one side", whole)
        raise self._error("only an attribute can be compared", _HINT, whole)

    def _constant(self, node: Any, operator: str, whole: Any) -> Operand:
        node = _unwrapped(node)
        if isinstance(node, exp.Literal):
            operand = self._operand(node)
            if operand.is_list:
                raise self._error("a list stands where one constant is expected", "Write one constant", node)
            if operand.family not in takes(operator):
                raise self._error(
                    f"{operator} does not take {FAMILY_NAMES[operand.family]}",
                    "Use a constant of a type that it takes, or = and !=",
                    node,
                )
            return operand
        if isinstance(node, exp.Column):
            name = self._attribute(node, whole)
            raise self._error(
                "two attributes cannot be compared",
                f"Compare each with a constant, or use previous.<attribute>; a text stands in single quotes: {_as_text(name)}",
                node,
            )
        if isinstance(node, exp.Null):
            raise self._error("nothing compares with NULL", "Write x IS NULL or x IS NOT NULL", whole)
        if isinstance(node, exp.Boolean):
            raise self._error(f"{operator} does not take a boolean", "Write x = TRUE, or just x", whole)
        raise self._error("a constant is missing here", "Compare an attribute with a constant", whole)

    def _comparison(self, operator: str, node: Any) -> Tree:
        left, right = _unwrapped(node.this), _unwrapped(node.expression)
        if isinstance(left, exp.Literal | exp.Boolean | exp.Null) and (
            isinstance(right, exp.Column) or _is_lower(right)
        ):
            left, right, operator = right, left, _MIRRORED[operator]
        if _is_lower(left):
            if operator not in ("=", "!="):
                raise self._error("LOWER(x) has no order", "Compare it by =, !=, IN or LIKE", node)
            atom = self._folded(left, [right], node)
            return atom if operator == "=" else Not(atom)
        if isinstance(left, exp.Literal | exp.Boolean) and isinstance(right, exp.Literal | exp.Boolean):
            raise self._error("two constants are compared", "Write TRUE or FALSE", node)
        attribute = self._attribute(left, node)
        if isinstance(right, exp.Boolean) and operator in ("=", "!="):
            return Atom(attribute, "=", Family.BOOLEAN, boolean=bool(right.this) is (operator == "="))
        return self._binary(operator, left, right, node)

    def _binary(self, operator: str, left: Any, right: Any, whole: Any) -> Tree:
        attribute = self._attribute(left, whole)
        operand = self._constant(right, operator, whole)
        if operator == "overlaps" and operand.family is Family.PATH:
            # Two paths overlap when one is at or below the other.
            return Or([Atom(attribute, name, Family.PATH, (operand,)) for name in ("within", "contains")])
        return Atom(attribute, operator, operand.family, (operand,))

    def _folded(self, function: Any, constants: list[Any], node: Any) -> Tree:
        """LOWER(x) is one of these texts, without regard to case on either side."""
        operands = []
        for constant in map(_unwrapped, constants):
            is_list = isinstance(constant, exp.Literal) and self._operand(constant).is_list
            operands.append(self._operand(constant) if is_list else self._constant(constant, "=", node))
            if operands[-1].family is not Family.STRING:
                raise self._error(
                    "LOWER(x) is compared with something else than a string", "Write LOWER(x) = '…'", node
                )
        return Atom(self._attribute(_argument(function), node), "folded", Family.STRING, tuple(operands))

    def _relation(self, node: Any) -> Tree:
        right = _unwrapped(node.expression)
        relation = self._operand(right).relation if isinstance(right, exp.Literal) else None
        operator = relation.name.lower() if relation is not None else "overlaps"
        return self._binary(operator, node.this, right, node)

    def _between(self, node: Any) -> Tree:
        if isinstance(_unwrapped(node.this), exp.Literal):
            raise self._error("BETWEEN stands after an attribute", "Write low <= 3 AND high >= 3", node)
        attribute = self._attribute(node.this, node)
        low, high = (self._constant(node.args[end], "between", node) for end in ("low", "high"))
        if low.family is not high.family:
            return And([Atom(attribute, ">=", low.family, (low,)), Atom(attribute, "<=", high.family, (high,))])
        return Atom(attribute, "between", low.family, (low, high))

    def _in(self, node: Any) -> Tree:
        if _is_lower(_unwrapped(node.this)) and node.expressions:
            return self._folded(_unwrapped(node.this), node.expressions, node)
        attribute = self._attribute(node.this, node)
        if not node.expressions:
            raise self._error("IN takes a list of constants", "Write x IN (1, 2, 3)", node)
        members: dict[Family, list[Operand]] = {}
        truths: list[Tree] = []
        for member in node.expressions:
            constant = _unwrapped(member)
            if isinstance(constant, exp.Boolean):
                truths.append(Atom(attribute, "=", Family.BOOLEAN, boolean=bool(constant.this)))
                continue
            operand = (
                self._operand(constant) if isinstance(constant, exp.Literal) else self._constant(constant, "in", node)
            )
            members.setdefault(operand.family, []).append(operand)
        lists = [Atom(attribute, "in", family, tuple(operands)) for family, operands in members.items()]
        return Or([*lists, *truths])

    def _is(self, node: Any) -> Tree:
        right = _unwrapped(node.expression)
        if isinstance(right, exp.Null):
            return Atom(self._attribute(node.this, node), "is null")
        raise self._error("IS is followed by NULL or NOT NULL only", "Write = or !=", node)

    def _like(self, node: Any) -> Tree:
        escape: Operand | None = None
        if isinstance(node, exp.Escape):
            escape = self._constant(node.expression, "like", node)
            node = _unwrapped(node.this)
            if not isinstance(node, exp.Like | exp.ILike):
                raise self._error("ESCAPE belongs to LIKE", r"Write x LIKE '50\%%' ESCAPE '\'", node)
        operand = self._constant(node.expression, "like", node)
        text = _unwrapped(node.this)
        folded = isinstance(node, exp.ILike) or _is_lower(text)
        attribute = self._attribute(_argument(text) if _is_lower(text) else text, node)
        atom = Atom(attribute, "ilike" if folded else "like", Family.STRING, (operand,), escape)
        return Not(atom) if node.args.get("negate") else atom


def _unwrapped(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_lower(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == "f_lower" and len(node.expressions) == 1


def _argument(function: Any) -> Any:
    return function.expressions[0]


def _flat(node: Any, kind: Any) -> Iterator[Any]:
    """The parts of a chain of one connective, left to right, without recursion: chains are long and lean to the left."""
    parts: list[Any] = []
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, kind):
            pending += (part.expression, part.this)  # the left one is taken first
        else:
            parts.append(part)
    return iter(parts)


# Disjunctive normal form.


def without_not(tree: Tree, negate: bool = False) -> Tree:
    if isinstance(tree, Not):
        return without_not(tree.part, not negate)
    if isinstance(tree, Atom):
        return without_not(tree.negated()) if negate else tree
    parts = [without_not(part, negate) for part in tree.parts]
    return And(parts) if isinstance(tree, And) is not negate else _joined(parts)


def _joined(parts: list[Tree]) -> Or:
    """A disjunction in which `x = 1 OR x = 2` is `x IN (1, 2)`: one disjunct instead of two."""
    joined: dict[object, Tree] = {}
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Or) else [part])]
    for part in flat:
        if isinstance(part, Atom) and part.operator in ("=", "in") and part.family is not Family.BOOLEAN:
            key = part.attribute, part.family
            known = joined.get(key)
            operands = (*known.operands, *part.operands) if isinstance(known, Atom) else part.operands
            joined[key] = replace(part, operator="in" if known is not None else part.operator, operands=operands)
        else:
            joined[id(part)] = part
    return Or(list(joined.values()))


@dataclass(slots=True)
class Disjuncts:
    """`atoms` are distinct; each disjunct is a list of numbers into them."""

    atoms: list[Atom] = field(default_factory=list)
    disjuncts: list[list[int]] = field(default_factory=list)


def disjuncts_of(tree: Tree, refuse: Callable[[str, str], ConditionError]) -> Disjuncts:
    """The disjunctive normal form. `refuse` makes the error when it would be too large."""
    tree = without_not(tree)
    count = _count(tree)
    if count > MAX_DISJUNCTS:
        raise refuse(
            f"the condition has {count:,} alternatives when every AND of ORs is multiplied out; the limit is {MAX_DISJUNCTS}",
            "Use IN for alternatives of one attribute, or several subscriptions",
        )
    found = Disjuncts()
    numbers: dict[int, int] = {}

    def expand(part: Tree) -> list[list[int]]:
        if isinstance(part, Atom):
            if id(part) not in numbers:
                numbers[id(part)] = len(found.atoms)
                found.atoms.append(part)
            return [[numbers[id(part)]]]
        assert not isinstance(part, Not)
        expanded = [expand(inner) for inner in part.parts]
        if isinstance(part, Or):
            return [disjunct for alternatives in expanded for disjunct in alternatives]
        product: list[list[int]] = [[]]
        for alternatives in expanded:
            product = [[*left, *right] for left in product for right in alternatives]
        return product

    found.disjuncts = expand(tree)
    if sum(map(len, found.disjuncts)) > MAX_PREDICATES:
        raise refuse(
            f"the condition has more than {MAX_PREDICATES:,} predicates when every AND of ORs is multiplied out",
            "Use IN for alternatives of one attribute, or several subscriptions",
        )
    return found


def _count(tree: Tree) -> int:
    if isinstance(tree, Atom):
        return 1
    assert not isinstance(tree, Not)
    counts = [_count(part) for part in tree.parts]
    return sum(counts) if isinstance(tree, Or) else prod(counts)
