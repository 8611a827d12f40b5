"""Shapes drawn from a seed, for kernels that nobody tuned for them."""

import math
import random

MOST_ATTENTION_FLOPS = 4 * 2048 * 16384**2
LEAST, MOST = 16, 8192
# What extents are multiples of and what they are no multiples of, in turns: Triton's kernels are others for multiples of 16, copies of 16 bytes of 16-bit elements need 8.
MULTIPLES = ((16, None), (8, 16), (1, 8))


def extent(draw, multiple, of_none):
    """Log-uniform from LEAST to MOST."""
    while True:
        number = round(2 ** draw.uniform(math.log2(LEAST), math.log2(MOST)) / multiple) * multiple
        if LEAST <= number <= MOST and (of_none is None or number % of_none):
            return number


def products(seed, count):
    """{name: (m, n, k)}."""
    draw, drawn = random.Random(seed), {}
    while len(drawn) < count:
        m, n, k = (extent(draw, *MULTIPLES[len(drawn) % len(MULTIPLES)]) for _ in range(3))
        drawn.setdefault(f"{m}x{n}x{k}", (m, n, k))
    return drawn


def attentions(seed, count):
    """{name: (heads, length, head size, is causal)}, lengths of 64 to 16384, whole multiples of 256 in every second one."""
    draw, drawn = random.Random(seed + 1), {}
    while len(drawn) < count:
        length = round(2 ** draw.uniform(6, 14))
        if len(drawn) % 2 == 0:
            length = max(length // 256, 1) * 256
        heads, head_size, is_causal = draw.randint(1, 64), draw.choice((64, 128)), draw.random() < 0.5
        if 4 * heads * head_size * length**2 <= MOST_ATTENTION_FLOPS:
            name = f"{heads} heads, {length} x {head_size}{', causal' if is_causal else ''}"
            drawn.setdefault(name, (heads, length, head_size, is_causal))
    return drawn
