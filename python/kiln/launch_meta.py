"""What the functions of a spec are told about a call."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from . import _kiln

#: A tensor as the extension module describes it.
Described = tuple[_kiln.DType, tuple[int, ...], tuple[int, ...], str, bool]


@dataclass(frozen=True)
class CallTensor:
    """A tensor of a call, without its data."""

    name: str
    dtype: _kiln.DType
    shape: tuple[int, ...]
    #: In elements.
    strides: tuple[int, ...]
    device: str

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.numel * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are dense and row-major."""
        dense = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != dense:
                return self.numel == 0
            dense *= extent
        return True


def call_tensors(names: Sequence[str], described: Sequence[Described]) -> tuple[CallTensor | None, ...]:
    """The tensors of a call under the op's names for them; None for an optional one that was left out."""
    return tuple(
        None if absent else CallTensor(name, dtype, tuple(shape), tuple(strides), device)
        for name, (dtype, shape, strides, device, absent) in zip(names, described, strict=False)
    )


@dataclass(frozen=True)
class Call:
    """A call of an op, without its data. ``call["x"]`` is a tensor or an attribute by name."""

    inputs: tuple[CallTensor | None, ...]
    outputs: tuple[CallTensor | None, ...]
    attributes: Mapping[str, Any]
    #: "cpu" or "cuda".
    target: str = ""
    #: "sm_90a"; of a CPU its model.
    arch: str = ""
    #: Multiprocessors of the GPU that it runs on, or threads of the CPU; 0 where that is not known.
    processors: int = 0

    def __getitem__(self, name: str) -> Any:
        for tensor in (*self.outputs, *self.inputs):
            if tensor is not None and tensor.name == name:
                return tensor
        try:
            return self.attributes[name]
        except KeyError:
            known = [t.name for t in (*self.outputs, *self.inputs) if t is not None] + list(self.attributes)
            raise KeyError(f"{name!r} is nothing of this call; it has {', '.join(known)}") from None


class LaunchMeta(Mapping[str, Any]):
    """Everything of one launch by name: tensors (CallTensor), values, template parameters and tunables.

    Values can be read as items and as attributes: ``meta["n"]`` and ``meta.n``.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"{name!r} is nothing of this launch; it has {', '.join(self._values)}") from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"{name!r} is nothing of this launch; it has {', '.join(self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"LaunchMeta({self._values!r})"


def grid_extents(grid: object, what: str) -> tuple[int, int, int]:
    """A grid as three extents: from an int, or up to three of them.

    Raises
    ------
    UsageTypeError, UsageValueError
        Naming ``what`` gave it.
    """
    extents = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    if not 1 <= len(extents) <= 3:
        raise _kiln.UsageValueError(f"{what} has {len(extents)} extents; a grid has 1 to 3, programs along each axis")
    try:
        if any(isinstance(extent, bool) for extent in extents):
            raise TypeError
        numbers = [operator.index(extent) for extent in extents]  # of arrays NumPy's refuses all but single integers
    except TypeError:
        raise _kiln.UsageTypeError(
            f"{what} is {grid!r}; expected an integer or up to three of them, programs along each axis "
            "(kiln.cdiv(n, BLOCK_SIZE) rounds up)"
        ) from None
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z
