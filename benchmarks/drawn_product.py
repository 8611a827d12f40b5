"""Products drawn from a seed: calls of matmul and linear that nobody listed."""

import dataclasses
import math
import random

MOST_ROWS, MOST_EXTENT = 16384, 200_000
MOST_FLOPS, MOST_BYTES = 3e12, 4e9
USUAL_LEAST = 64  # of n and k in most products: drawn from 1 on, half of all would be over in two microseconds
ITEM_BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "f32": 4, "fp8e4m3": 1}
DTYPES = (("bf16", 0.75), ("f16", 0.04), ("tf32", 0.07), ("fp8e4m3", 0.07), ("f32", 0.07))
LAYOUTS = ("NN", "NT", "TN", "TT")  # T: the operand's columns are what lies contiguous
ACTIVATIONS = ("none", "relu", "gelu", "silu")


@dataclasses.dataclass(frozen=True)
class Product:
    """out (m, n) = a (m, k) @ b (k, n), `batches` times; with an activation it is a linear whose weight is b."""

    index: int
    m: int
    n: int
    k: int
    batches: int  # 0: matrices without a batch dimension
    layout: str
    dtype: str
    activation: str  # "": matmul
    has_bias: bool

    @property
    def out_bytes(self):
        return max(ITEM_BYTES[self.dtype], 2)  # fp8 gives bf16

    @property
    def flops(self):
        return 2.0 * self.m * self.n * self.k * max(self.batches, 1)

    @property
    def bytes(self):
        read = (self.m + self.n) * self.k * ITEM_BYTES[self.dtype]
        return (read + self.m * self.n * self.out_bytes) * max(self.batches, 1)

    @property
    def kind(self):
        """The first that holds, of the categories that results are reported by."""
        inner = (self.m if self.layout[0] == "T" else self.k, self.k if self.layout[1] == "T" else self.n, self.n)
        if self.activation:
            return "linear"
        if self.batches:
            return "batch"
        if any(extent * ITEM_BYTES[self.dtype] % 16 for extent in inner):
            return "off 16 bytes"
        if min(self.m, self.n) <= 16:
            return "up to 16 rows"
        return "k up to 128" if self.k <= 128 else "regular"

    def __str__(self):
        batches = f"{self.batches} x " if self.batches else ""
        what = f" linear {self.activation}{'' if self.has_bias else ' without bias'}" if self.activation else ""
        return f"{batches}{self.m}x{self.n}x{self.k} {self.layout} {self.dtype}{what}"


def weighted(source, choices):
    return source.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def extent(source, least, most, form):
    """Log-uniform: as it falls, a multiple of 8, or a power of two or next to one."""
    number = 2 ** source.uniform(math.log2(least), math.log2(most))
    if form == "multiple":
        return min(max(8, round(number / 8) * 8), most)
    if form == "power":
        number = 2 ** round(math.log2(number)) + source.choice((0, 0, 0, -1, 1))
    return min(max(1, round(number)), most)


def draw_product(seed, index):
    """The product of this number, whichever others are drawn."""
    source = random.Random(f"{seed}/{index}")
    batches = round(2 ** source.uniform(1, 9)) if source.random() < 0.15 else 0
    activation = "" if batches or source.random() > 0.15 else source.choice(ACTIVATIONS)
    layout = "NT" if activation else source.choice(LAYOUTS)
    dtype = weighted(source, DTYPES)
    has_bias = activation != "" and source.random() < 0.8
    form = weighted(source, (("as it falls", 0.34), ("multiple", 0.25), ("power", 0.41)))
    least = weighted(source, ((1, 0.2), (USUAL_LEAST, 0.8)))
    while True:
        m = extent(source, 1, MOST_ROWS, form)
        n, k = (extent(source, least, MOST_EXTENT, form) for _ in range(2))
        product = Product(index, m, n, k, batches, layout, dtype, activation, has_bias)
        if product.flops <= MOST_FLOPS and product.bytes <= MOST_BYTES:
            return product
