"""Calls for a GPU drawn from a seed, a family and a number: products in the dtypes of tensor cores, and everything else, with the layouts and epilogues that people use."""

import dataclasses

from call_draw import LAYOUTS, REDUCTIONS, UNARY_OF_FLOATS, CallDraw
from drawn_call import ITEM_BYTES, DrawnInput
from drawn_extent import Bounds, weighted

# Heads, hidden sizes and vocabularies.
OF_MODELS = (64, 80, 96, 112, 128, 192, 256, 576, 768, 1536, 2048, 2304, 2560, 2880, 3072, 3584, 4096, 4608, 5120)
OF_MODELS += (5632, 6144, 7168, 8192, 9728, 11008, 12288, 13824, 14336, 16384, 18432, 28672, 29568)
OF_MODELS += (32000, 32001, 49152, 50257, 50304, 102400, 128256, 129280, 151936, 152064)
MOST_BYTES = 4.3e9  # of all that lies in memory for a call
PRODUCT_US = 3800  # a product takes about that at most
# What an H200 is taken to reach in products.
PRODUCT_TFLOPS = {"bf16": 790, "f16": 790, "tf32": 395, "f32": 57, "fp8e4m3": 1580}
PRECISIONS = (("bf16", 0.45), ("f16", 0.25), ("tf32", 0.15), ("f32", 0.15))
PLAIN = (("dense", 0.84), ("padded", 0.08), ("inner", 0.08))
MOST_BATCHES = 512
FEW_ROWS, SHALLOW = 16, 128
ROW_ALIGNMENT = 16  # bytes, which wide loads need
FP8_STEP = 16  # extents of torch's products of fp8 are multiples of that


def is_aligned(drawn):
    """Whether all rows of a matrix begin at addresses that wide loads can have."""
    return drawn.layout != "inner" and drawn.stored_shape[-1] * ITEM_BYTES[drawn.dtype] % ROW_ALIGNMENT == 0


def product_kind(m, n, k, operands):
    """The first of these that it is."""
    if m <= FEW_ROWS:
        return "up to 16 rows"
    if k <= SHALLOW:
        return "k up to 128"
    if not all(map(is_aligned, (*operands, DrawnInput((m, n), operands[0].dtype)))):
        return "rows off 16 bytes"
    return "regular" if m % 8 == n % 8 == k % 8 == 0 else "aligned, not of 8"


class GpuCallDraw(CallDraw):
    """One call in the making, of what a GPU is asked for."""

    bounds = Bounds(2**28, 2**30, (16_384, 200_000, 200_000), (16, 16_384), OF_MODELS)
    floats = (("f32", 0.4), ("bf16", 0.4), ("f16", 0.2))
    numbers = (("f32", 0.36), ("bf16", 0.36), ("f16", 0.18), ("i32", 0.06), ("i64", 0.04))
    unary_of_floats = (*UNARY_OF_FLOATS, "gelu")
    reductions = (*REDUCTIONS, "norm", "logsumexp")
    strided_layouts = (*CallDraw.strided_layouts, "inner")

    def product(self, batches=1, precisions=PRECISIONS):
        """Dtype, attributes and extents of a product that a GPU has done in some milliseconds."""
        precision = weighted(self.source, precisions)
        extents = self.draw.product(batches, PRODUCT_US * 1e6 * PRODUCT_TFLOPS[precision])
        if self.source.random() < 0.4:  # all round, as a model's are
            extents = [extent if extent <= FEW_ROWS else -(-extent // 8) * 8 for extent in extents]
        is_tf32 = precision == "tf32"
        return "f32" if is_tf32 else precision, {"precision": "tf32"} if is_tf32 else {}, extents

    def operands(self, dtype, shapes):
        """The name of a layout, and both factors in it."""
        layout, inputs = weighted(self.source, LAYOUTS), []
        for side, shape in zip(layout, shapes):
            plain = weighted(self.source, PLAIN)
            inputs.append(DrawnInput(shape, dtype, "transposed" if side == "T" else plain))
        return layout, inputs

    def matmul(self):
        dtype, attributes, (m, n, k) = self.product()
        _, inputs = self.operands(dtype, ((m, k), (k, n)))
        kind = product_kind(m, n, k, inputs)
        return self.call(kind, "matmul", inputs, (m, n), flops=2.0 * m * n * k, **attributes)

    def batch(self):
        (batches,) = self.draw.extents((MOST_BATCHES,))
        dtype, attributes, (m, n, k) = self.product(batches)
        _, inputs = self.operands(dtype, ((batches, m, k), (batches, k, n)))
        if self.source.random() < 0.2:  # one second factor for the whole batch
            inputs[1] = dataclasses.replace(inputs[1], shape=(k, n))
        elif self.source.random() < 0.15:
            inputs.append(DrawnInput((batches, m, n), dtype))
        return self.call("batches", "matmul", inputs, (batches, m, n), flops=2.0 * batches * m * n * k, **attributes)

    def linear(self):
        dtype, attributes, (m, n, k) = self.product()
        inputs = [DrawnInput((m, k), dtype), DrawnInput((n, k), dtype), DrawnInput((n,), dtype)]
        if self.source.random() < 0.2:  # no bias
            inputs.pop()
        activation = self.source.choice(("none", "relu", "silu", "gelu"))
        is_plain = activation == "none" and len(inputs) == 2
        kind = product_kind(m, n, k, inputs) if is_plain else "bias and activation"
        attributes |= {"activation": activation}
        return self.call(kind, "linear", inputs, (m, n), flops=2.0 * m * n * k, **attributes)

    def addition(self):
        dtype, attributes, (m, n, k) = self.product()
        _, inputs = self.operands(dtype, ((m, k), (k, n)))
        inputs.append(DrawnInput(self.source.choice(((n,), (m, n))), dtype))
        attributes |= self.source.choice(({}, {}, {"alpha": 0.5, "beta": 2.0}))
        return self.call("bias and activation", "matmul", inputs, (m, n), flops=2.0 * m * n * k, **attributes)

    def fp8(self):
        _, _, extents = self.product(precisions=(("fp8e4m3", 1),))
        m, n, k = extents[0], *(-(-extent // FP8_STEP) * FP8_STEP for extent in extents[1:])
        scale = DrawnInput((), "f32", "dense", "scale")
        inputs = [DrawnInput((m, k), "fp8e4m3"), DrawnInput((k, n), "fp8e4m3", "transposed"), scale, scale]
        kind = product_kind(m, n, k, inputs[:2])
        call = self.call(kind, "scaled_matmul", inputs, (m, n), flops=2.0 * m * n * k, out_dtype="bf16")
        return dataclasses.replace(call, attributes={"out_dtype": "bf16"})


FAMILIES = {
    "products": (
        (GpuCallDraw.matmul, 0.5),
        (GpuCallDraw.batch, 0.15),
        (GpuCallDraw.linear, 0.2),
        (GpuCallDraw.addition, 0.07),
        (GpuCallDraw.fp8, 0.08),
    ),
    "other": (
        (GpuCallDraw.unary, 0.13),
        (GpuCallDraw.binary, 0.1),
        (GpuCallDraw.broadcast, 0.12),
        (GpuCallDraw.strided, 0.08),
        (GpuCallDraw.fused, 0.04),
        (GpuCallDraw.reduction, 0.2),
        (GpuCallDraw.normalization, 0.12),
        (GpuCallDraw.layout, 0.13),
        (GpuCallDraw.scan, 0.03),
        (GpuCallDraw.selection, 0.05),
    ),
}


def draw_gpu_call(seed, family, index):
    """The call of this number, whichever others are drawn; drawn again while it needs too much memory."""
    draw = GpuCallDraw(seed, family, index)
    while True:
        call = weighted(draw.source, FAMILIES[family])(draw)
        if call.stored_bytes <= MOST_BYTES:
            return call
