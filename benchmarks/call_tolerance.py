"""How far the result of a drawn call may be from the one in f64. Needs no array library."""

import math

# Relatively, and absolutely as a multiple of the root of how many values of about 1 went into it. Of f32; of f64 it is 2^-28 of that.
TOLERANCES = {
    "matmul": (1e-6, 2**-17),
    "linear": (1e-6, 2**-17),
    "sum": (1e-5, 2**-17),
    "cumsum": (1e-5, 2**-14),
}
TOLERANCE = (2e-5, 2e-6)
ROUNDINGS = {"bf16": 2**-8, "f16": 2**-11}  # the relative error of the result's dtype, where the sums are f32


def tolerance(call):
    """Relative and absolute; 0 and 0 where no float is involved."""
    relative, absolute = TOLERANCES.get(call.op, TOLERANCE)
    shape = call.inputs[0].shape
    if call.op in ("matmul", "linear"):
        absolute *= math.sqrt(shape[-1])
    elif call.op in ("sum", "cumsum"):
        dim = call.attributes["dim"]
        absolute *= math.sqrt(math.prod(shape) if dim is None else shape[dim])
    dtypes = (call.dtype, call.out_dtype)
    scale = 1 if {"f32", *ROUNDINGS} & {*dtypes} else 2**-28 if "f64" in dtypes else 0
    return relative * scale + ROUNDINGS.get(call.out_dtype, 0), absolute * scale
