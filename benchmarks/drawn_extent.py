"""Extents of arrays drawn from a source of randomness: log-uniform over what people run and beyond, round ones and odd ones."""

import math

MOST_ROWS, MOST_COLUMNS = 1_000_000, 200_000
MOST_ELEMENTS = 2**24  # of an array
MOST_PRODUCT_FLOPS = 4e9
# The extents that most products of people have; half of the products drawn are made of these.
USUAL_PRODUCT_EXTENTS = (16, 4096)
SMALL = 16


def weighted(source, choices):
    return source.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


def draw_extent(source, most, least=1):
    """A third as they fall, a quarter multiples of 8, the rest powers of two, half of them off by one. One in eight is small, whatever `least` is."""

    def log_uniform(least, most):
        return round(math.exp(source.uniform(math.log(least), math.log(most))))

    if source.random() < 1 / 8:
        return log_uniform(1, min(SMALL, most))
    extent = log_uniform(least, most)
    style = weighted(source, (("as it falls", 1 / 3), ("multiple of 8", 1 / 4), ("power of two", 5 / 12)))
    if style == "multiple of 8":
        extent = (extent + 4) // 8 * 8
    elif style == "power of two":
        extent = 2 ** round(math.log2(extent)) + source.choice((0, 0, -1, 1))
    return min(max(extent, 1), most)


def fits(*extents):
    return math.prod(extents) <= MOST_ELEMENTS


def draw_extents(source, mosts, is_legal=fits, least=1):
    """One below each of `mosts`, drawn again until they are legal together."""
    while True:
        extents = tuple(draw_extent(source, most, least) for most in mosts)
        if is_legal(*extents):
            return extents


def draw_shape(source, ranks=((2, 0.75), (1, 0.1), (3, 0.15))):
    """A shape of one of the ranks, which stand beside their weights."""
    mosts = {1: (MOST_ELEMENTS,), 2: (MOST_ROWS, MOST_COLUMNS), 3: (256, 4096, 4096), 4: (64, 2048, 64, 256)}
    return draw_extents(source, mosts[weighted(source, ranks)])


def draw_product_extents(source, batches=1):
    """m, n and k of a product, or of each of so many."""

    def is_legal(m, n, k):
        return 2.0 * batches * m * n * k <= MOST_PRODUCT_FLOPS and fits(batches * max(m * k, k * n, m * n))

    if source.random() < 1 / 2:
        least, most = USUAL_PRODUCT_EXTENTS
        return draw_extents(source, (most, most, most), is_legal, least)
    return draw_extents(source, (MOST_ROWS, MOST_COLUMNS, MOST_COLUMNS), is_legal)
