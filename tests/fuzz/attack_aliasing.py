"""Arrays that overlap: a call whose output shares memory with its inputs is refused or right to the bit.

Views of one buffer, of random shapes, strides and places, as inputs and as `out`. Afterwards the buffer must be what it
is where inputs and output share nothing, and after a refusal what it was.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import kiln
import numpy
from attack import Attack

Array = numpy.ndarray[Any, Any]

UNARY = ["neg", "exp", "copy", "softmax", "cumsum", "sum", "transpose", "rms_norm", "argmax", "relu"]
BINARY = ["add", "mul", "sub", "maximum", "matmul", "where"]


@dataclasses.dataclass
class Place:
    """A view that can be made of any buffer: offset and strides in elements."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def draw(draw: random.Random, shape: tuple[int, ...], elements: int) -> Place:
        """Any order that strides can name, of a start that leaves it room."""
        choices = [0, 1, 1, 2, -1, shape[-1], shape[-1], 2 * shape[-1], -shape[-1], 3]
        strides = tuple(draw.choice(choices) for _ in shape)
        low = sum(-stride * (extent - 1) for stride, extent in zip(strides, shape) if stride < 0)
        reach = sum(abs(stride) * (extent - 1) for stride, extent in zip(strides, shape))
        return Place(low + draw.randrange(elements - reach), shape, strides)

    def of(self, buffer: Array) -> Array:
        strides = [stride * buffer.itemsize for stride in self.strides]
        return numpy.lib.stride_tricks.as_strided(buffer[self.offset :], self.shape, strides)


def call(op: str, inputs: list[Array], out: Array | None = None) -> Array:
    attributes: dict[str, object] = {"dim": -1} if op in ("softmax", "cumsum", "sum", "argmax") else {}
    if op == "transpose":
        attributes = {"dim0": 0, "dim1": 1}
    return kiln.dispatch_gpu_op(op, *inputs, **attributes, out=out)


def main() -> None:
    attack = Attack(__doc__ or "")
    refused = right = 0
    for case in attack.cases():
        draw = attack.random(case)
        dtype = draw.choice(["float32", "float64", "int32", "float16"])
        op = draw.choice(UNARY + BINARY)
        rows, columns = draw.choice([1, 2, 3, 7, 16, 33]), draw.choice([1, 2, 5, 8, 31, 64])
        if op == "matmul":
            columns = rows
        values = numpy.random.default_rng(case)
        buffer = values.integers(1, 9, 16384).astype(dtype)
        places = [Place.draw(draw, (rows, columns), buffer.size) for _ in range(1 if op in UNARY else 2)]
        first = [values.integers(0, 2, (rows, columns)).astype(bool)] if op == "where" else []
        last = [numpy.ones(columns, dtype)] if op == "rms_norm" else []
        try:
            result = call(op, [*first, *(place.of(buffer.copy()) for place in places), *last])
        except (ValueError, TypeError, NotImplementedError):
            continue
        if draw.random() < 0.3 and result.shape == (rows, columns) and result.dtype == buffer.dtype:
            out_place = places[-1]
        else:
            shape = result.shape or (1,)
            out_place = Place.draw(draw, shape, buffer.nbytes // result.itemsize)
        # The same layouts of three buffers that have nothing in common: kernels differ by layout, and round as they do.
        apart = buffer.copy().view(result.dtype)
        try:
            call(
                op,
                [*first, *(place.of(buffer.copy()) for place in places), *last],
                out_place.of(apart).reshape(result.shape),
            )
        except (ValueError, TypeError, NotImplementedError):
            continue
        before = buffer.copy()
        try:
            out = out_place.of(buffer.view(result.dtype)).reshape(result.shape)
            call(op, [*first, *(place.of(buffer) for place in places), *last], out)
        except (ValueError, TypeError, NotImplementedError):
            refused += 1
            if buffer.tobytes() != before.tobytes():
                attack.fail(case, f"{op} of {dtype}: a call that was refused changed its arrays")
            continue
        right += 1
        # Neither the result nor what lies around it may be other than where nothing is shared.
        if buffer.tobytes() != apart.tobytes():
            attack.fail(case, f"{op} of {dtype}, inputs {places}, out {out_place}: not what arrays apart give")
    attack.finish(refused=refused, right=right)


if __name__ == "__main__":
    main()
