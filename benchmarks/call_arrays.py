"""The arrays of drawn calls as NumPy's, and how near to the right values a result is."""

import math

import numpy as np
from call_tolerance import tolerance
from numpy_call import DTYPES, numpy_call

SEED = 7
POOL = 1_048_573  # random values are drawn once and repeated; a prime, so that rows differ
INTEGERS_OF_A_ONE = 60  # normal ones are of about -300 to 300, positive ones of 30 to 120


class CallArrays:
    """Makes inputs, the same in every process."""

    def __init__(self):
        random = np.random.default_rng(SEED)
        normal = random.standard_normal(POOL)
        self.pools = {
            "normal": normal,
            "positive": np.exp2(random.uniform(-1, 1, POOL)),
            "bool": normal > 0,
            "index": random.random(POOL),
        }

    def dense(self, drawn, shape, shift):
        values = np.resize(np.roll(self.pools[drawn.values], -shift), math.prod(shape)).reshape(shape)
        if drawn.values == "index":
            values = np.floor(values * drawn.bound)
        elif drawn.dtype in ("i32", "i64"):
            values = np.rint(values * INTEGERS_OF_A_ONE)
        return values.astype(DTYPES[drawn.dtype])

    def view(self, drawn, shift):
        return drawn.view_of(self.dense(drawn, drawn.stored_shape, shift))

    def inputs(self, call):
        return [self.view(drawn, (call.seed + 7919 * place) % POOL) for place, drawn in enumerate(call.inputs)]


def out_of(call, wide=False):
    """An array for the result; `wide`: f64 where the result is f32. None where the call makes its own."""
    if not call.takes_out:
        return None
    dtype = DTYPES[call.out_dtype]
    return np.zeros(call.out_shape, np.float64 if wide and call.out_dtype == "f32" else dtype)


def wide_result(call, inputs):
    """NumPy's, of the same values in f64."""
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    return np.asarray(numpy_call(call.op, wide, call.attributes, out_of(call, wide=True))())


def error_in_tolerances(call, result, expected):
    """Up to 1 is right. None: of another shape or dtype, not a number, or not equal where it has to be."""
    if result.shape != call.out_shape or result.dtype != DTYPES[call.out_dtype]:
        return None
    relative, absolute = tolerance(call)
    if not absolute or expected.dtype.kind in "bi":
        return 0.0 if np.array_equal(result, expected) else None
    error = float(np.max(np.abs(result - expected) / (absolute + relative * np.abs(expected)), initial=0.0))
    return error if math.isfinite(error) else None
