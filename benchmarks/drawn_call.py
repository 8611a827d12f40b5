"""Calls of ops drawn from a seed: what is called, over which shapes, dtypes and layouts. Nothing here runs an op or needs an array library."""

import dataclasses
import math
import random

FAMILIES = ("products", "other")
MOST_ROWS, MOST_COLUMNS = 1_000_000, 200_000
MOST_ELEMENTS = 2**24  # of an array
MOST_PRODUCT_FLOPS = 4e9
ITEM_BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "bool": 1}
FLOATS = (("f32", 0.8), ("f64", 0.2))
NUMBERS = (("f32", 0.65), ("f64", 0.15), ("i32", 0.12), ("i64", 0.08))
LAYOUTS = (("NN", 0.4), ("NT", 0.3), ("TN", 0.2), ("TT", 0.1))
ACTIVATIONS = ("none", "relu")

# Of floats and integers alike; of floats alone; of floats above 0.
UNARY = ("abs", "neg", "sign", "relu", "clamp")
UNARY_OF_FLOATS = ("exp", "exp2", "expm1", "sin", "cos", "tanh", "floor", "ceil", "round", "trunc", "sigmoid", "silu")
UNARY_OF_FLOATS += ("leaky_relu", "isnan")
UNARY_OF_POSITIVES = ("log", "log2", "log1p", "sqrt", "rsqrt", "reciprocal")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "lt", "eq")
BINARY_OF_FLOATS = ("div", "atan2")
BINARY_OF_INTEGERS = ("bitwise_and", "bitwise_xor", "floor_div", "remainder")
GIVES_BOOL = ("isnan", "lt", "eq")
REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std", "argmax", "argmin")
REDUCTIONS_OF_INTEGERS = ("sum", "amax", "amin", "argmax")
# NumPy has no out= for what they do, so that both sides make a new array.
MAKES_A_NEW_ARRAY = ("where", "gather")


@dataclasses.dataclass(frozen=True)
class DrawnInput:
    """An array. `layout` is "dense", "transposed" (a view of a dense array whose last two dimensions are exchanged), "padded" (the left part of wider rows) or "every second"
    (of a row's elements); `values` are "normal", "positive" (of 0.5 to 2, or of 1 to 100), "bool", or "index" (below `bound`)."""

    shape: tuple
    dtype: str
    layout: str = "dense"
    values: str = "normal"
    bound: int = 0

    @property
    def bytes(self):
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    def __str__(self):
        suffix = {"dense": "", "transposed": "'", "padded": "+pad", "every second": "[::2]"}[self.layout]
        return "x".join(map(str, self.shape)) + suffix


@dataclasses.dataclass(frozen=True)
class DrawnCall:
    """A call of `op`; `kind` is the part of the family that the report names, `flops` the operations that the result takes, `touched_bytes` what must be read and written."""

    family: str
    index: int
    seed: int  # of the inputs' values
    kind: str
    op: str
    inputs: tuple
    attributes: dict
    out_shape: tuple
    out_dtype: str
    flops: float
    touched_bytes: int

    @property
    def name(self):
        return f"{self.family}/{self.index}"

    @property
    def takes_out(self):
        return self.op not in MAKES_A_NEW_ARRAY

    @property
    def dtype(self):
        return next((drawn.dtype for drawn in self.inputs if drawn.values in ("normal", "positive")), "bool")

    def __str__(self):
        attributes = "".join(f" {name}={value}" for name, value in self.attributes.items())
        return f"{self.op} {self.dtype} {' '.join(map(str, self.inputs))}{attributes}"


def weighted(source, choices):
    return source.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def draw_extent(source, most):
    """Log-uniform of 1 to `most`; one in eight is small. A third as they fall, a quarter multiples of 8, the rest powers of two and their neighbours."""
    if source.random() < 0.125:
        return round(math.exp(source.uniform(0, math.log(min(most, 16)))))
    extent = round(math.exp(source.uniform(0, math.log(most))))
    style = source.random()
    if style >= 1 / 3 + 1 / 4:
        extent = 2 ** round(math.log2(extent)) + source.choice((0, 0, 0, -1, 1))
    elif style >= 1 / 3:
        extent = (extent + 4) // 8 * 8
    return min(max(extent, 1), most)


def draw_extents(source, mosts, is_legal):
    while True:
        extents = tuple(draw_extent(source, most) for most in mosts)
        if is_legal(*extents):
            return extents


def fits(*extents):
    return math.prod(extents) <= MOST_ELEMENTS


def draw_shape(source, ranks=((2, 0.75), (1, 0.1), (3, 0.15))):
    rank = weighted(source, ranks)
    mosts = {1: (MOST_ELEMENTS,), 2: (MOST_ROWS, MOST_COLUMNS), 3: (256, 4096, 4096), 4: (64, 2048, 64, 256)}[rank]
    return draw_extents(source, mosts, fits)


class Draw:
    """A call in the making: the source of randomness, and how its parts become a DrawnCall."""

    def __init__(self, seed, family, index):
        self.source = random.Random(f"{seed} {family} {index}")
        self.family, self.index = family, index

    def call(self, kind, op, inputs, out_shape, flops=None, out_dtype=None, read_bytes=None, **attributes):
        out_dtype = out_dtype or inputs[0].dtype
        out_elements = math.prod(out_shape)
        if read_bytes is None:
            read_bytes = sum(drawn.bytes for drawn in inputs)
        return DrawnCall(
            self.family,
            self.index,
            self.source.getrandbits(32),
            kind,
            op,
            tuple(inputs),
            attributes,
            tuple(out_shape),
            out_dtype,
            max(out_elements, *(math.prod(drawn.shape) for drawn in inputs)) if flops is None else flops,
            read_bytes + out_elements * ITEM_BYTES[out_dtype],
        )

    def draw_product(self):
        kinds = (("matmul", 0.5), ("vector", 0.13), ("batch", 0.15), ("linear", 0.22))
        return getattr(self, f"draw_{weighted(self.source, kinds)}")()

    def matrices(self, batch=()):
        """m, n, k, and both factors in a drawn layout."""
        batches = math.prod(batch)
        m, n, k = draw_extents(
            self.source,
            (MOST_ROWS, MOST_COLUMNS, MOST_COLUMNS),
            lambda m, n, k: (
                2.0 * batches * m * n * k <= MOST_PRODUCT_FLOPS and fits(batches * max(m * k, k * n, m * n))
            ),
        )
        dtype, layout = weighted(self.source, FLOATS), weighted(self.source, LAYOUTS)
        factors = []
        for side, shape in zip(layout, ((m, k), (k, n))):
            plain = "padded" if not batch and self.source.random() < 0.08 else "dense"
            factors.append(DrawnInput((*batch, *shape), dtype, "transposed" if side == "T" else plain))
        return m, n, k, layout, factors

    def draw_matmul(self):
        m, n, k, layout, factors = self.matrices()
        return self.call(f"matmul {layout}", "matmul", factors, (m, n), 2.0 * m * n * k)

    def draw_batch(self):
        batch = draw_extents(self.source, (512,), fits)
        m, n, k, layout, factors = self.matrices(batch)
        shared = self.source.random()
        if shared < 0.2:  # one factor for the whole batch
            factors[1] = dataclasses.replace(factors[1], shape=(k, n))
        return self.call("batch", "matmul", factors, (*batch, m, n), 2.0 * batch[0] * m * n * k)

    def draw_vector(self):
        dtype, form = weighted(self.source, FLOATS), weighted(self.source, (("mv", 0.5), ("vm", 0.35), ("dot", 0.15)))
        if form == "dot":
            (k,) = draw_extents(self.source, (MOST_ELEMENTS,), fits)
            return self.call("vector", "matmul", [DrawnInput((k,), dtype)] * 2, (), 2.0 * k)
        rows, columns = draw_shape(self.source, ((2, 1),))
        layout = self.source.choice(("dense", "dense", "transposed"))
        matrix = DrawnInput((rows, columns), dtype, layout)
        if form == "mv":
            inputs, out = [matrix, DrawnInput((columns,), dtype)], (rows,)
        else:
            inputs, out = [DrawnInput((rows,), dtype), matrix], (columns,)
        return self.call("vector", "matmul", inputs, out, 2.0 * rows * columns)

    def draw_linear(self):
        m, n, k, _, (x, _) = self.matrices()
        inputs = [dataclasses.replace(x, layout="dense"), DrawnInput((n, k), x.dtype)]
        if self.source.random() < 0.8:
            inputs.append(DrawnInput((n,), x.dtype))
        activation = self.source.choice(ACTIVATIONS)
        return self.call("linear", "linear", inputs, (m, n), 2.0 * m * n * k, activation=activation)

    def draw_other(self):
        kinds = (
            ("unary", 0.16),
            ("binary", 0.12),
            ("broadcast", 0.12),
            ("strided", 0.08),
            ("fused", 0.06),
            ("reduction", 0.2),
            ("normalization", 0.1),
            ("layout", 0.08),
            ("scan", 0.03),
            ("selection", 0.05),
        )
        return getattr(self, f"draw_{weighted(self.source, kinds)}")()

    def unary_op(self, dtype):
        names = UNARY if dtype.startswith("i") else UNARY + UNARY_OF_FLOATS + UNARY_OF_POSITIVES
        op = self.source.choice(names)
        attributes = {"clamp": {"min": -1, "max": 1}, "leaky_relu": {"negative_slope": 0.01}}.get(op, {})
        return op, "positive" if op in UNARY_OF_POSITIVES else "normal", attributes

    def binary_op(self, dtype):
        op = self.source.choice(BINARY + (BINARY_OF_INTEGERS if dtype.startswith("i") else BINARY_OF_FLOATS))
        return op, "positive" if op in ("div", "floor_div", "remainder") else "normal"

    def draw_unary(self, kind="unary", layouts=("dense",), ranks=((2, 0.7), (1, 0.2), (3, 0.1))):
        dtype = weighted(self.source, NUMBERS)
        op, values, attributes = self.unary_op(dtype)
        shape = draw_shape(self.source, ranks)
        drawn = DrawnInput(shape, dtype, self.source.choice(layouts), values)
        return self.call(kind, op, [drawn], shape, None, "bool" if op in GIVES_BOOL else dtype, **attributes)

    def draw_binary(self, kind="binary", layouts=("dense",), ranks=((2, 0.7), (1, 0.2), (3, 0.1))):
        dtype = weighted(self.source, NUMBERS)
        op, values = self.binary_op(dtype)
        shape = draw_shape(self.source, ranks)
        inputs = [
            DrawnInput(shape, dtype, self.source.choice(layouts), values),
            DrawnInput(shape, dtype, "dense", values),
        ]
        return self.call(kind, op, inputs, shape, None, "bool" if op in GIVES_BOOL else dtype)

    def draw_strided(self):
        layouts, ranks = ("transposed", "padded", "every second"), ((2, 0.8), (3, 0.2))
        draw = self.source.choice((self.draw_unary, self.draw_binary))
        return draw("strided", layouts, ranks)

    def draw_broadcast(self):
        dtype = weighted(self.source, NUMBERS)
        op, values = self.binary_op(dtype)
        rows, columns = shape = draw_shape(self.source, ((2, 1),))
        out_dtype = "bool" if op in GIVES_BOOL else dtype
        form = self.source.choice(("row", "row", "column", "column", "outer", "number"))
        x = DrawnInput(shape, dtype, "dense", values)
        if form == "number":
            return self.call("broadcast", op, [x], shape, None, out_dtype, other=2 if dtype.startswith("i") else 2.5)
        row, column = (DrawnInput(part, dtype, "dense", values) for part in ((columns,), (rows, 1)))
        inputs = {"row": [x, row], "column": [x, column], "outer": [column, row]}[form]
        return self.call("broadcast", op, inputs, shape, None, out_dtype)

    def draw_fused(self):
        dtype, shape = weighted(self.source, FLOATS), draw_shape(self.source)
        op = self.source.choice(("mul_add", "add_relu", "axpby"))
        attributes = {"alpha": 0.5, "beta": 2.0} if op == "axpby" else {}
        inputs = [DrawnInput(shape, dtype)] * (3 if op == "mul_add" else 2)
        return self.call("fused", op, inputs, shape, **attributes)

    def draw_reduction(self):
        dtype = weighted(self.source, NUMBERS)
        op = self.source.choice(REDUCTIONS_OF_INTEGERS if dtype.startswith("i") else REDUCTIONS)
        shape = draw_shape(self.source)
        dim = self.source.choice((None, *range(len(shape)), len(shape) - 1))
        count = math.prod(shape) if dim is None else shape[dim]
        if count < 2 and op in ("var", "std"):
            op = "mean"
        out = () if dim is None else shape[:dim] + shape[dim + 1 :]
        layout = "dense" if len(shape) == 1 else weighted(self.source, (("dense", 0.85), ("transposed", 0.15)))
        out_dtype = "i64" if op.startswith("arg") or (op == "sum" and dtype.startswith("i")) else dtype
        part = "of all" if dim is None else "over the last" if dim == len(shape) - 1 else "over another"
        return self.call(f"reduction {part}", op, [DrawnInput(shape, dtype, layout)], out, None, out_dtype, dim=dim)

    def draw_normalization(self):
        dtype, shape = weighted(self.source, FLOATS), draw_shape(self.source, ((2, 0.8), (3, 0.2)))
        op = self.source.choice(("softmax", "softmax", "log_softmax", "layer_norm", "rms_norm"))
        x, vector = DrawnInput(shape, dtype), DrawnInput(shape[-1:], dtype)
        if op.endswith("softmax"):
            dim = self.source.choice((-1, -1, -1, 0))
            return self.call(op, op, [x], shape, 5 * math.prod(shape), dim=dim)
        inputs = [x, vector, vector] if op == "layer_norm" else [x, vector]
        return self.call(op, op, inputs, shape, 5 * math.prod(shape), eps=1e-5)

    def draw_layout(self):
        dtype = weighted(self.source, NUMBERS)
        op = self.source.choice(("transpose", "transpose", "permute", "copy", "cast", "concat", "fill"))
        if op == "permute":
            shape = draw_shape(self.source, ((3, 0.5), (4, 0.5)))
            dims = list(range(len(shape)))
            while dims == sorted(dims):
                self.source.shuffle(dims)
            return self.call(op, op, [DrawnInput(shape, dtype)], [shape[dim] for dim in dims], 0, dims=dims)
        shape = draw_shape(self.source, ((2, 0.8), (3, 0.2)))
        x = DrawnInput(shape, dtype)
        if op == "transpose":
            return self.call(op, op, [x], (*shape[:-2], shape[-1], shape[-2]), 0)
        if op == "copy":
            layout = self.source.choice(("dense", "transposed", "padded", "every second"))
            return self.call(op, op, [dataclasses.replace(x, layout=layout)], shape, 0)
        if op == "cast":
            target = self.source.choice([name for name in ("f32", "f64", "i32", "i64") if name != dtype])
            return self.call(op, op, [x], shape, None, target, dtype=target)
        if op == "fill":
            return self.call(op, op, [x], shape, 0, read_bytes=0, value=3)
        parts, dim = self.source.randint(2, 4), self.source.randrange(len(shape))
        lengths = [max(1, shape[dim] // parts)] * parts
        inputs = [DrawnInput((*shape[:dim], length, *shape[dim + 1 :]), dtype) for length in lengths]
        return self.call(op, op, inputs, (*shape[:dim], sum(lengths), *shape[dim + 1 :]), 0, dim=dim)

    def draw_scan(self):
        dtype, shape = weighted(self.source, FLOATS), draw_shape(self.source)
        return self.call("scan", "cumsum", [DrawnInput(shape, dtype)], shape, dim=self.source.randrange(len(shape)))

    def draw_selection(self):
        dtype, (rows, columns) = weighted(self.source, NUMBERS), draw_shape(self.source, ((2, 1),))
        op, dim = self.source.choice(("where", "gather", "index_select", "index_select")), self.source.choice((0, 0, 1))
        x = DrawnInput((rows, columns), dtype)
        if op == "where":
            return self.call(op, op, [DrawnInput(x.shape, "bool", "dense", "bool"), x, x], x.shape, None, dtype)
        (taken,) = draw_extents(self.source, (MOST_ROWS,), lambda taken: fits(taken, x.shape[1 - dim]))
        out = (taken, columns) if dim == 0 else (rows, taken)
        index = DrawnInput(out if op == "gather" else (taken,), "i64", "dense", "index", x.shape[dim])
        read_bytes = index.bytes + math.prod(out) * ITEM_BYTES[dtype]
        return self.call(op, op, [x, index], out, 0, read_bytes=read_bytes, dim=dim)


def draw_call(seed, family, index):
    """The call of this number, whichever others are drawn."""
    draw = Draw(seed, family, index)
    return draw.draw_product() if family == "products" else draw.draw_other()
