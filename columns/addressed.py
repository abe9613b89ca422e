"""Named tuples of arrays, handed to kernels as one address.

Numba hands an array over as seven numbers. A tuple of fifty arrays through fifty functions takes minutes to compile and is slow to call;
an address does neither. Inside a kernel a reference looks like the tuple: `blocks.home[slot]`.

    pinned = pin(blocks)            # keeps the arrays alive
    kernel(pinned.address)          # in Python
    blocks = blocks_at(address)     # in the kernel, with blocks_at = reference(Blocks)

In memory: per field the address of its data and its length, or, if the field is itself a named tuple, the address of that and 0.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, models, register_model
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype


class ReferenceType(types.Type):
    """Fields are pairs of a name and the Numba type of what it holds."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = fields
        super().__init__(f"Reference[{name}]")

    @property
    def key(self) -> Any:
        return self.name, self.fields


@register_model(ReferenceType)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.IntType(64))


@infer_getattr
class _ReferenceAttributes(AttributeTemplate):
    key = ReferenceType

    def generic_resolve(self, kind: ReferenceType, name: str) -> Any:
        return dict(kind.fields).get(name)


@lower_getattr_generic(ReferenceType)
def _read_field(context: Any, builder: Any, kind: ReferenceType, value: Any, name: str) -> Any:
    word = ir.IntType(64)
    position = [field for field, _ in kind.fields].index(name)
    held = kind.fields[position][1]

    def load(at: int) -> Any:
        place = builder.add(value, ir.Constant(word, 8 * at))
        return builder.load(builder.inttoptr(place, word.as_pointer()))

    address = load(2 * position)
    if isinstance(held, ReferenceType):
        return address
    array = arrayobj.make_array(held)(context, builder)
    item = context.get_abi_sizeof(context.get_data_type(held.dtype))
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(address, context.get_data_type(held.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, [load(2 * position + 1)]),
        strides=cgutils.pack_array(builder, [ir.Constant(word, item)]),
        itemsize=ir.Constant(word, item),
        meminfo=None,
    )
    return array._getvalue()


def reference_type(cls: Any) -> ReferenceType:
    """The Numba type of references to a named tuple; its annotations say what the arrays hold."""
    fields = []
    for name, annotation in get_type_hints(cls).items():
        if hasattr(annotation, "_fields"):
            fields.append((name, reference_type(annotation)))
        else:
            scalar = get_args(get_args(annotation)[1])[0]
            fields.append((name, types.Array(from_dtype(np.dtype(scalar)), 1, "C")))
    return ReferenceType(cls.__name__, tuple(fields))


def reference(cls: Any) -> Any:
    """A function for kernels that turns an address into a reference."""
    kind = reference_type(cls)

    @intrinsic
    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return arguments[0]

        return kind(types.int64), generate

    return at


class Pinned:
    """Valid as long as it is held."""

    __slots__ = ("_kept", "_table", "address")

    def __init__(self, arrays: Any) -> None:
        table: list[int] = []
        kept: list[object] = []
        for array in arrays:
            if isinstance(array, np.ndarray):
                table += [array.__array_interface__["data"][0], len(array)]
                kept.append(array)
            else:
                inner = Pinned(array)
                table += [inner.address, 0]
                kept.append(inner)
        self._table: npt.NDArray[np.int64] = np.array(table, np.int64)
        self._kept = kept
        self.address: int = self._table.__array_interface__["data"][0]


def pin(arrays: Any) -> Pinned:
    return Pinned(arrays)
