"""Calls drawn from a seed, a family and a number: which op, over what."""

import dataclasses
import math
import random

from drawn_call import ITEM_BYTES, DrawnInput, drawn_call
from drawn_extent import CPU_BOUNDS, MOST_ROWS, ExtentDraw, weighted

FLOATS = (("f32", 0.8), ("f64", 0.2))
NUMBERS = (("f32", 0.65), ("f64", 0.15), ("i32", 0.12), ("i64", 0.08))
LAYOUTS = (("NN", 0.4), ("NT", 0.3), ("TN", 0.2), ("TT", 0.1))

UNARY = ("abs", "neg", "sign", "relu", "clamp")
UNARY_OF_FLOATS = ("exp", "exp2", "expm1", "sin", "cos", "tanh", "floor", "ceil", "round", "trunc")
UNARY_OF_FLOATS += ("sigmoid", "silu", "leaky_relu", "isnan")
UNARY_OF_POSITIVES = ("log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal")
UNARY_ATTRIBUTES = {"clamp": {"min": -1, "max": 1}, "leaky_relu": {"negative_slope": 0.01}}
BINARY = ("add", "sub", "mul", "maximum", "minimum", "lt", "eq")
BINARY_OF_FLOATS = ("div", "atan2")
BINARY_OF_INTEGERS = ("bitwise_and", "bitwise_xor", "floor_div", "remainder")
BINARY_OF_POSITIVES = ("div", "floor_div", "remainder")
GIVES_BOOL = ("isnan", "lt", "eq")
REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std", "argmax", "argmin")
REDUCTIONS_OF_INTEGERS = ("sum", "amax", "amin", "argmax")
ROW_FLOPS = 5  # an element, of softmax and the norms

MATRIX_RANKS = ((2, 1),)
ELEMENTWISE_RANKS = ((2, 0.7), (1, 0.2), (3, 0.1))
ROW_RANKS = ((2, 0.8), (3, 0.2))


def is_integer(dtype):
    return dtype.startswith("i")


class CallDraw:
    """One call in the making, of what the CPU is asked for."""

    bounds, floats, numbers = CPU_BOUNDS, FLOATS, NUMBERS
    unary_of_floats, reductions = UNARY_OF_FLOATS, REDUCTIONS
    strided_layouts = ("transposed", "padded", "every second")

    def __init__(self, seed, family, index):
        self.source = random.Random(f"{seed} {family} {index}")
        self.draw = ExtentDraw(self.source, self.bounds)
        self.place = family, index, self.source.getrandbits(32)

    def call(self, kind, op, inputs, out_shape, *, flops=None, out_dtype=None, read_bytes=None, **attributes):
        return drawn_call(
            op,
            inputs,
            out_shape,
            kind=kind,
            flops=flops,
            out_dtype=out_dtype,
            read_bytes=read_bytes,
            attributes=attributes,
            place=self.place,
        )

    # products

    def factors(self, m, n, k, batch=()):
        """The name of a layout, and both factors in it."""
        dtype, layout = weighted(self.source, self.floats), weighted(self.source, LAYOUTS)
        inputs = []
        for side, shape in zip(layout, ((m, k), (k, n))):
            plain = "padded" if not batch and self.source.random() < 0.08 else "dense"
            inputs.append(DrawnInput((*batch, *shape), dtype, "transposed" if side == "T" else plain))
        return layout, inputs

    def matmul(self):
        m, n, k = self.draw.product()
        layout, inputs = self.factors(m, n, k)
        return self.call(f"matmul {layout}", "matmul", inputs, (m, n), flops=2.0 * m * n * k)

    def batch(self):
        batches = self.draw.extents((512,))
        m, n, k = self.draw.product(*batches)
        _, inputs = self.factors(m, n, k, batches)
        if self.source.random() < 0.2:  # one second factor for the whole batch
            inputs[1] = dataclasses.replace(inputs[1], shape=(k, n))
        return self.call("batch", "matmul", inputs, (*batches, m, n), flops=2.0 * math.prod(batches) * m * n * k)

    def vector(self):
        dtype = weighted(self.source, self.floats)
        form = weighted(self.source, (("matrix by vector", 0.5), ("vector by matrix", 0.35), ("dot", 0.15)))
        if form == "dot":
            (k,) = self.draw.extents((self.bounds.elements,))
            return self.call("vector", "matmul", [DrawnInput((k,), dtype)] * 2, (), flops=2.0 * k)
        rows, columns = self.draw.shape(MATRIX_RANKS)
        matrix = DrawnInput((rows, columns), dtype, self.source.choice(("dense", "dense", "transposed")))
        if form == "matrix by vector":
            inputs, out_shape = [matrix, DrawnInput((columns,), dtype)], (rows,)
        else:
            inputs, out_shape = [DrawnInput((rows,), dtype), matrix], (columns,)
        return self.call("vector", "matmul", inputs, out_shape, flops=2.0 * rows * columns)

    def linear(self):
        m, n, k = self.draw.product()
        dtype = weighted(self.source, self.floats)
        inputs = [DrawnInput(shape, dtype) for shape in ((m, k), (n, k), (n,))]
        if self.source.random() < 0.2:  # no bias
            inputs.pop()
        activation = self.source.choice(("none", "relu"))
        return self.call("linear", "linear", inputs, (m, n), flops=2.0 * m * n * k, activation=activation)

    # elementwise

    def unary(self, kind="unary", layouts=("dense",), ranks=ELEMENTWISE_RANKS):
        dtype = weighted(self.source, self.numbers)
        op = self.source.choice(UNARY if is_integer(dtype) else UNARY + self.unary_of_floats + UNARY_OF_POSITIVES)
        values = "positive" if op in UNARY_OF_POSITIVES else "normal"
        shape = self.draw.shape(ranks)
        x = DrawnInput(shape, dtype, self.source.choice(layouts), values)
        attributes = UNARY_ATTRIBUTES.get(op, {})
        return self.call(kind, op, [x], shape, out_dtype="bool" if op in GIVES_BOOL else dtype, **attributes)

    def binary_op(self):
        """An op, its dtype, values of its inputs and the dtype of its result."""
        dtype = weighted(self.source, self.numbers)
        op = self.source.choice(BINARY + (BINARY_OF_INTEGERS if is_integer(dtype) else BINARY_OF_FLOATS))
        values = "positive" if op in BINARY_OF_POSITIVES else "normal"
        return op, dtype, values, "bool" if op in GIVES_BOOL else dtype

    def binary(self, kind="binary", layouts=("dense",), ranks=ELEMENTWISE_RANKS):
        op, dtype, values, out_dtype = self.binary_op()
        shape = self.draw.shape(ranks)
        inputs = [DrawnInput(shape, dtype, layout, values) for layout in (self.source.choice(layouts), "dense")]
        return self.call(kind, op, inputs, shape, out_dtype=out_dtype)

    def strided(self):
        draw = self.source.choice((self.unary, self.binary))
        return draw("strided", self.strided_layouts, ROW_RANKS)

    def broadcast(self):
        op, dtype, values, out_dtype = self.binary_op()
        rows, columns = self.draw.shape(MATRIX_RANKS)
        whole, row, column = (
            DrawnInput(shape, dtype, "dense", values) for shape in ((rows, columns), (columns,), (rows, 1))
        )
        form = self.source.choice(("row", "row", "column", "column", "outer", "number"))
        if form == "number":
            number = 2 if is_integer(dtype) else 2.5
            return self.call(form, op, [whole], whole.shape, out_dtype=out_dtype, other=number)
        inputs = {"row": [whole, row], "column": [whole, column], "outer": [column, row]}[form]
        return self.call(form, op, inputs, whole.shape, out_dtype=out_dtype)

    def fused(self):
        dtype, shape = weighted(self.source, self.floats), self.draw.shape()
        op = self.source.choice(("mul_add", "add_relu", "axpby"))
        attributes = {"alpha": 0.5, "beta": 2.0} if op == "axpby" else {}
        inputs = [DrawnInput(shape, dtype)] * (3 if op == "mul_add" else 2)
        return self.call("fused", op, inputs, shape, **attributes)

    # rows and columns

    def reduction(self):
        dtype, shape = weighted(self.source, self.numbers), self.draw.shape()
        dim = self.source.choice((None, *range(len(shape)), len(shape) - 1))
        op = self.source.choice(REDUCTIONS_OF_INTEGERS if is_integer(dtype) else self.reductions)
        if op in ("var", "std") and (math.prod(shape) if dim is None else shape[dim]) < 2:
            op = "mean"  # of one element there is no variance, which NumPy warns of
        out_shape = () if dim is None else shape[:dim] + shape[dim + 1 :]
        layout = "dense" if len(shape) == 1 else weighted(self.source, (("dense", 0.85), ("transposed", 0.15)))
        out_dtype = "i64" if op.startswith("arg") or (op == "sum" and is_integer(dtype)) else dtype
        kind = "reduce all" if dim is None else "reduce last" if dim == len(shape) - 1 else "reduce another"
        return self.call(kind, op, [DrawnInput(shape, dtype, layout)], out_shape, out_dtype=out_dtype, dim=dim)

    def normalization(self):
        dtype, shape = weighted(self.source, self.floats), self.draw.shape(ROW_RANKS)
        op = self.source.choice(("softmax", "softmax", "log_softmax", "layer_norm", "rms_norm"))
        x, vector = DrawnInput(shape, dtype), DrawnInput(shape[-1:], dtype)
        flops = ROW_FLOPS * x.elements
        if op in ("softmax", "log_softmax"):
            dim = self.source.choice((-1, -1, -1, 0))
            return self.call(op, op, [x], shape, flops=flops, dim=dim)
        inputs = [x, vector, vector] if op == "layer_norm" else [x, vector]
        return self.call(op, op, inputs, shape, flops=flops, eps=1e-5)

    def scan(self):
        dtype, shape = weighted(self.source, self.floats), self.draw.shape()
        return self.call("cumsum", "cumsum", [DrawnInput(shape, dtype)], shape, dim=self.source.randrange(len(shape)))

    # moving elements

    def layout(self):
        op = self.source.choice(("transpose", "transpose", "permute", "copy", "cast", "concat", "fill"))
        dtype = weighted(self.source, self.numbers)
        if op == "permute":
            return self.permute(dtype)
        if op == "concat":
            return self.concat(dtype)
        shape = self.draw.shape(ROW_RANKS)
        x = DrawnInput(shape, dtype)
        if op == "transpose":
            return self.call(op, op, [x], (*shape[:-2], shape[-1], shape[-2]), flops=0)
        if op == "copy":
            layout = self.source.choice(("dense", *self.strided_layouts))
            return self.call(op, op, [dataclasses.replace(x, layout=layout)], shape, flops=0)
        if op == "cast":
            target = self.source.choice([name for name, _ in self.numbers if name != dtype])
            return self.call(op, op, [x], shape, out_dtype=target, dtype=target)
        return self.call(op, op, [x], shape, flops=0, read_bytes=0, value=3)

    def permute(self, dtype):
        shape = self.draw.shape(((3, 0.5), (4, 0.5)))
        dims = sorted(range(len(shape)))
        while dims == sorted(dims):
            self.source.shuffle(dims)
        out_shape = [shape[dim] for dim in dims]
        return self.call("permute", "permute", [DrawnInput(shape, dtype)], out_shape, flops=0, dims=dims)

    def concat(self, dtype):
        parts, shape = self.source.randint(2, 4), list(self.draw.shape(ROW_RANKS))
        dim = self.source.randrange(len(shape))
        shape[dim] = max(1, shape[dim] // parts)
        inputs = [DrawnInput(tuple(shape), dtype)] * parts
        shape[dim] *= parts
        return self.call("concat", "concat", inputs, shape, flops=0, dim=dim)

    def selection(self):
        dtype, (rows, columns) = weighted(self.source, self.numbers), self.draw.shape(MATRIX_RANKS)
        op, dim = self.source.choice(("where", "gather", "index_select", "index_select")), self.source.choice((0, 0, 1))
        x = DrawnInput((rows, columns), dtype)
        if op == "where":
            return self.call(op, op, [DrawnInput(x.shape, "bool", "dense", "bool"), x, x], x.shape, out_dtype=dtype)
        kept = x.shape[1 - dim]
        (taken,) = self.draw.extents((MOST_ROWS,), lambda taken: self.draw.fits(taken, kept))
        out_shape = (taken, columns) if dim == 0 else (rows, taken)
        index_shape = out_shape if op == "gather" else (taken,)
        index = DrawnInput(index_shape, "i64", "dense", "index", x.shape[dim])
        read_bytes = index.bytes + math.prod(out_shape) * ITEM_BYTES[dtype]
        return self.call(op, op, [x, index], out_shape, flops=0, read_bytes=read_bytes, dim=dim)


# The ways to draw a call of each family, beside their weights.
FAMILIES = {
    "products": ((CallDraw.matmul, 0.5), (CallDraw.vector, 0.13), (CallDraw.batch, 0.15), (CallDraw.linear, 0.22)),
    "other": (
        (CallDraw.unary, 0.16),
        (CallDraw.binary, 0.12),
        (CallDraw.broadcast, 0.12),
        (CallDraw.strided, 0.08),
        (CallDraw.fused, 0.06),
        (CallDraw.reduction, 0.2),
        (CallDraw.normalization, 0.1),
        (CallDraw.layout, 0.08),
        (CallDraw.scan, 0.03),
        (CallDraw.selection, 0.05),
    ),
}


def draw_call(seed, family, index):
    """The call of this number, whichever others are drawn."""
    draw = CallDraw(seed, family, index)
    return weighted(draw.source, FAMILIES[family])(draw)
