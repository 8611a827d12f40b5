"""Extents of arrays drawn from a source of randomness: log-uniform over what people run and beyond, round ones and odd ones."""

import dataclasses
import math

MOST_ROWS, MOST_COLUMNS = 1_000_000, 200_000
SMALL = 16


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What is drawn for a device at most: elements of an array and of a product's, extents m, n and k of a product. Half of the products are made of the extents that most
    products of people have, between the two of `usual`; one extent in eight is of `of_models`, where there are any."""

    elements: int
    product_elements: int
    product_extents: tuple
    usual: tuple
    of_models: tuple = ()


MOST_ELEMENTS = 2**24
MOST_PRODUCT_FLOPS = 4e9
CPU_BOUNDS = Bounds(MOST_ELEMENTS, MOST_ELEMENTS, (MOST_ROWS, MOST_COLUMNS, MOST_COLUMNS), (16, 4096))


def weighted(source, choices):
    return source.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]


class ExtentDraw:
    """Draws extents within bounds from a random.Random."""

    def __init__(self, source, bounds):
        self.source, self.bounds = source, bounds

    def log_uniform(self, least, most):
        return round(math.exp(self.source.uniform(math.log(least), math.log(most))))

    def extent(self, most, least=1):
        """A third as they fall, a quarter multiples of 8, the rest powers of two, half of them off by one. One in eight is small, whatever `least` is."""
        if self.source.random() < 1 / 8:
            return self.log_uniform(1, min(SMALL, most))
        if self.bounds.of_models and self.source.random() < 1 / 8:
            return self.source.choice([extent for extent in self.bounds.of_models if extent <= most] or [most])
        extent = self.log_uniform(least, most)
        style = weighted(self.source, (("as it falls", 1 / 3), ("multiple of 8", 1 / 4), ("power of two", 5 / 12)))
        if style == "multiple of 8":
            extent = (extent + 4) // 8 * 8
        elif style == "power of two":
            extent = 2 ** round(math.log2(extent)) + self.source.choice((0, 0, -1, 1))
        return min(max(extent, 1), most)

    def fits(self, *extents):
        return math.prod(extents) <= self.bounds.elements

    def extents(self, mosts, is_legal=None, least=1):
        """One below each of `mosts`, drawn again until they are legal together: of an array that fits, unless it is said otherwise."""
        while True:
            extents = tuple(self.extent(most, least) for most in mosts)
            if (is_legal or self.fits)(*extents):
                return extents

    def shape(self, ranks=((2, 0.75), (1, 0.1), (3, 0.15))):
        """A shape of one of the ranks, which stand beside their weights."""
        mosts = {
            1: (self.bounds.elements,),
            2: (MOST_ROWS, MOST_COLUMNS),
            3: (256, 4096, 4096),
            4: (64, 2048, 64, 256),
        }
        return self.extents(mosts[weighted(self.source, ranks)])

    def product(self, batches=1, most_flops=MOST_PRODUCT_FLOPS):
        """m, n and k of a product, or of each of so many."""

        def is_legal(m, n, k):
            elements = batches * max(m * k, k * n, m * n)
            return 2.0 * batches * m * n * k <= most_flops and elements <= self.bounds.product_elements

        if self.source.random() < 1 / 2:
            least, most = self.bounds.usual
            return self.extents((most, most, most), is_legal, least)
        return self.extents(self.bounds.product_extents, is_legal)
