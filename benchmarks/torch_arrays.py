"""The arrays of drawn calls as torch's on a GPU, and how near to the right values a result is."""

import math

import torch
from call_tolerance import tolerance
from drawn_call import ITEM_BYTES
from product_tolerance import allowed_error
from torch_call import DTYPES, torch_calls

GUARD_BYTES = 512  # on both sides of a result
UNTOUCHED = 0xFF  # each byte of what nobody has written yet: a NaN as a float, -1 as an integer
INTEGERS_OF_A_ONE = 60
SCALE = 0.75
COMPARED_AT_ONCE = 2**26  # elements
PRODUCTS = ("matmul", "linear", "scaled_matmul")
# Ops that only move elements, or round them to another dtype: torch's own result is exact.
MOVES = ("transpose", "permute", "copy", "cast", "concat", "fill", "where", "gather", "index_select")


def stored_values(drawn, generator):
    """A dense array with random values."""
    shape, dtype = drawn.stored_shape, DTYPES[drawn.dtype]
    options = {"generator": generator, "device": generator.device}
    match drawn.values:
        case "index":
            return torch.randint(drawn.bound, shape, dtype=dtype, **options)
        case "bool":
            return torch.randint(2, shape, dtype=dtype, **options)
        case "scale":
            return torch.full(shape, SCALE, dtype=dtype, device=generator.device)
        case "positive":
            values = torch.rand(shape, **options).mul_(2).sub_(1).exp2_()
        case _:
            if ITEM_BYTES[drawn.dtype] == 2:
                return torch.randn(shape, dtype=dtype, **options)
            values = torch.randn(shape, **options)
    return values.to(dtype) if dtype.is_floating_point else values.mul_(INTEGERS_OF_A_ONE).round_().to(dtype)


def inputs_of(call, device):
    generator = torch.Generator(device).manual_seed(call.seed)
    return [drawn.view_of(stored_values(drawn, generator)) for drawn in call.inputs]


class PlacedArrays:
    """Arrays without values for calls that are only planned: those of all calls lie over each other, at addresses as aligned as torch's own."""

    def __init__(self, calls, device):
        most = max(call.stored_bytes + (len(call.inputs) + 1) * GUARD_BYTES for call in calls)
        self.memory = torch.empty(most, dtype=torch.uint8, device=device)

    def dense(self, shape, dtype, start):
        size = math.prod(shape) * ITEM_BYTES[dtype]
        end = start + -(-size // GUARD_BYTES) * GUARD_BYTES
        return self.memory[start : start + size].view(DTYPES[dtype]).view(shape), end

    def of(self, call):
        """Inputs and result."""
        inputs, place = [], 0
        for drawn in call.inputs:
            stored, place = self.dense(drawn.stored_shape, drawn.dtype, place)
            inputs.append(drawn.view_of(stored))
        return inputs, self.dense(call.out_shape, call.out_dtype, place)[0]


class GuardedResult:
    """Memory for a result between bytes that are not to change."""

    def __init__(self, call, device):
        size = math.prod(call.out_shape) * ITEM_BYTES[call.out_dtype]
        self.memory = torch.empty(size + 2 * GUARD_BYTES, dtype=torch.uint8, device=device)
        self.out = self.memory[GUARD_BYTES : GUARD_BYTES + size].view(DTYPES[call.out_dtype]).view(call.out_shape)

    def reset(self):
        self.memory.fill_(UNTOUCHED)

    def is_guarded(self):
        guards = torch.cat((self.memory[:GUARD_BYTES], self.memory[-GUARD_BYTES:]))
        return bool((guards == UNTOUCHED).all())


def exact_result(call, inputs):
    """torch's, of the same values in f64; as it is where elements only move."""
    if call.op in MOVES:
        return first_way(call.op, inputs, call.attributes)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    if call.op == "scaled_matmul":
        a, b, scale_a, scale_b = wide
        return torch.matmul(a, b).mul_(scale_a * scale_b)
    return first_way(call.op, wide, call.attributes)


def first_way(op, inputs, attributes):
    return next(iter(torch_calls(op, inputs, attributes).values()))()


def is_same(result, expected):
    if result.dtype.is_floating_point:
        return torch.equal(result, expected.to(result.dtype))
    if result.dtype == torch.bool:  # each is 0 or 1
        result, expected = result.view(torch.uint8), expected.view(torch.uint8)
    return torch.equal(result, expected)


def error_in_tolerances(call, inputs, result, expected):
    """Up to 1 is right. None: not a number where there is to be one, or not equal where it has to be."""
    if call.op in ("argmax", "argmin"):  # of equal values any may be named
        return 0.0 if names_extremes(call, inputs[0], result, expected) else None
    relative, absolute = tolerance(call)
    if call.op in MOVES or not result.dtype.is_floating_point:
        return 0.0 if is_same(result, expected) else None
    worst = 0.0
    parts = (x.reshape(-1).split(COMPARED_AT_ONCE) for x in (result, expected))
    for got, exact in zip(*parts):
        if call.op in PRODUCTS:
            allowed = allowed_error(exact, call.precision, result.dtype, call.inputs[0].shape[-1])
        else:
            allowed = exact.abs().mul_(relative).add_(absolute)
        error = got.double().sub_(exact).abs_().div_(allowed).max().item()
        if not math.isfinite(error):
            return None
        worst = max(worst, error)
    return worst


def names_extremes(call, x, result, expected):
    dim, size = call.attributes["dim"], x.numel() if call.attributes["dim"] is None else x.shape[call.attributes["dim"]]
    if not bool(((result >= 0) & (result < size)).all()):
        return False
    if dim is None:
        values = x.reshape(-1)
        return bool(values[result] == values[expected])
    named = (x.gather(dim, index.unsqueeze(dim)) for index in (result, expected))
    return torch.equal(*named)
