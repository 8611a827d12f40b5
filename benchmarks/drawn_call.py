"""A call of an op for a benchmark: the op, its inputs' shapes, dtypes and layouts, and what that is as text, bytes and operations. Needs no array library."""

import dataclasses
import math

ITEM_BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "fp8e4m3": 1, "i32": 4, "i64": 8, "bool": 1}
# NumPy has no out= for what they do, so that both sides make a new array.
MAKES_A_NEW_ARRAY = ("where", "gather")
LAYOUT_MARKS = {"dense": "", "transposed": "'", "padded": "+pad", "every second": "[::2]", "inner": "[1:,3:]"}
PADDING = 8  # elements


@dataclasses.dataclass(frozen=True)
class DrawnInput:
    """An array. `layout` is "dense", "transposed" (a view of a dense array whose last two dimensions are exchanged), "padded" (the left part of wider rows),
    "every second" (of a row's elements) or "inner" (without the first row, and the first three columns); `values` are "normal", "positive" (not far from 1), "bool",
    "index" (below `bound`) or "scale" (one number)."""

    shape: tuple
    dtype: str
    layout: str = "dense"
    values: str = "normal"
    bound: int = 0

    @property
    def elements(self):
        return math.prod(self.shape)

    @property
    def bytes(self):
        return self.elements * ITEM_BYTES[self.dtype]

    @property
    def stored_shape(self):
        """Of the dense array that it is a view of."""
        *outer, last = self.shape or (None,)
        match self.layout:
            case "transposed":
                return (*outer[:-1], last, outer[-1])
            case "padded":
                return (*outer, last + PADDING)
            case "every second":
                return (*outer, 2 * last)
            case "inner":
                return (*outer[:-1], outer[-1] + 1, last + 3)
        return self.shape

    def view_of(self, stored):
        """NumPy's or torch's view of such an array."""
        match self.layout:
            case "transposed":
                return stored.swapaxes(-2, -1)
            case "padded":
                return stored[..., :-PADDING]
            case "every second":
                return stored[..., ::2]
            case "inner":
                return stored[..., 1:, 3:]
        return stored

    def __str__(self):
        return ("x".join(map(str, self.shape)) or "()") + LAYOUT_MARKS[self.layout]


@dataclasses.dataclass(frozen=True)
class DrawnCall:
    """A call of `op`, numbered within its family. `kind` is the part of the family that a report names, `seed` that of the inputs' values, `flops` the operations that the
    result takes, `read_bytes` what must be read for it."""

    family: str
    index: int
    seed: int
    kind: str
    op: str
    inputs: tuple
    attributes: dict
    out_shape: tuple
    out_dtype: str
    flops: float
    read_bytes: int

    @property
    def name(self):
        return f"{self.family}/{self.index}"

    @property
    def takes_out(self):
        return self.op not in MAKES_A_NEW_ARRAY

    @property
    def dtype(self):
        """Of the numbers that go in."""
        return next(drawn.dtype for drawn in self.inputs if drawn.values in ("normal", "positive"))

    @property
    def stored_bytes(self):
        """Of everything that lies in memory for the call."""
        inputs = sum(math.prod(drawn.stored_shape) * ITEM_BYTES[drawn.dtype] for drawn in self.inputs)
        return inputs + math.prod(self.out_shape) * ITEM_BYTES[self.out_dtype]

    @property
    def precision(self):
        """What products are computed in: the dtype of the numbers that go in, or tf32."""
        return "tf32" if self.attributes.get("precision") == "tf32" else self.dtype

    @property
    def touched_bytes(self):
        return self.read_bytes + math.prod(self.out_shape) * ITEM_BYTES[self.out_dtype]

    def __str__(self):
        attributes = "".join(f" {name}={value}" for name, value in self.attributes.items())
        return f"{self.op} {self.dtype} {' '.join(map(str, self.inputs))}{attributes}"


def drawn_call(
    op, inputs, out_shape, *, kind="", flops=None, out_dtype=None, read_bytes=None, attributes=None, place=("", 0, 0)
):
    """A call whose result has the first input's dtype, that reads every input once, and takes an operation an element, unless it is said otherwise. `place` is its family,
    number and seed."""
    out_shape = tuple(out_shape)
    family, index, seed = place
    return DrawnCall(
        family=family,
        index=index,
        seed=seed,
        kind=kind or op,
        op=op,
        inputs=tuple(inputs),
        attributes=attributes or {},
        out_shape=out_shape,
        out_dtype=out_dtype or inputs[0].dtype,
        flops=max(math.prod(out_shape), *(drawn.elements for drawn in inputs)) if flops is None else flops,
        read_bytes=sum(drawn.bytes for drawn in inputs) if read_bytes is None else read_bytes,
    )
