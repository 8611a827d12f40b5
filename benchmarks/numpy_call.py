"""What a NumPy user writes for an op of Kiln: results go to `out` wherever NumPy takes one, and intermediate steps are made in it."""

import functools

import numpy as np

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
UFUNCS = {
    "abs": np.absolute, "neg": np.negative, "sign": np.sign, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "isnan": np.isnan, "log": np.log, "log2": np.log2, "log1p": np.log1p, "sqrt": np.sqrt,
    "reciprocal": np.reciprocal, "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "maximum": np.maximum, "minimum": np.minimum, "lt": np.less, "eq": np.equal, "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and, "bitwise_xor": np.bitwise_xor, "floor_div": np.floor_divide,
    "remainder": np.remainder, "matmul": np.matmul,
}  # fmt: skip
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "argmax": np.argmax, "argmin": np.argmin}


def linear(out, x, weight, bias=None, activation="none"):
    np.matmul(x, weight.T, out=out)
    if bias is not None:
        np.add(out, bias, out=out)
    if activation == "relu":
        np.maximum(out, 0, out=out)
    return out


def sigmoid(out, x):
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.reciprocal(out, out=out)


def silu(out, x):
    return np.multiply(sigmoid(out, x), x, out=out)


def rsqrt(out, x):
    np.sqrt(x, out=out)
    return np.reciprocal(out, out=out)


def leaky_relu(out, x, negative_slope):
    np.multiply(x, negative_slope, out=out)
    return np.maximum(x, out, out=out)


def mul_add(out, x, y, z):
    np.multiply(x, y, out=out)
    return np.add(out, z, out=out)


def add_relu(out, x, y):
    np.add(x, y, out=out)
    return np.maximum(out, 0, out=out)


def axpby(out, x, y, alpha, beta):
    np.multiply(x, alpha, out=out)
    return np.add(out, y * beta, out=out)


def softmax(out, x, dim):
    np.subtract(x, x.max(axis=dim, keepdims=True), out=out)
    np.exp(out, out=out)
    return np.divide(out, out.sum(axis=dim, keepdims=True), out=out)


def log_softmax(out, x, dim):
    np.subtract(x, x.max(axis=dim, keepdims=True), out=out)
    return np.subtract(out, np.log(np.exp(out).sum(axis=dim, keepdims=True)), out=out)


def layer_norm(out, x, weight, bias, eps):
    np.subtract(x, x.mean(axis=-1, keepdims=True), out=out)
    variance = np.square(out).mean(axis=-1, keepdims=True)
    np.multiply(out, 1 / np.sqrt(variance + eps), out=out)
    np.multiply(out, weight, out=out)
    return np.add(out, bias, out=out)


def rms_norm(out, x, weight, eps):
    square = np.square(x, out=out).mean(axis=-1, keepdims=True)
    np.multiply(x, 1 / np.sqrt(square + eps), out=out)
    return np.multiply(out, weight, out=out)


def filled(out, x, value):
    out.fill(value)
    return out


def copied(out, view):
    np.copyto(out, view, casting="unsafe")
    return out


EXPRESSIONS = {
    "linear": linear,
    "sigmoid": sigmoid,
    "silu": silu,
    "rsqrt": rsqrt,
    "leaky_relu": leaky_relu,
    "mul_add": mul_add,
    "add_relu": add_relu,
    "axpby": axpby,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "fill": filled,
    "relu": lambda out, x: np.maximum(x, 0, out=out),
    "clamp": lambda out, x, min, max: np.clip(x, min, max, out=out),
    "var": lambda out, x, dim: np.var(x, axis=dim, ddof=1, out=out),
    "std": lambda out, x, dim: np.std(x, axis=dim, ddof=1, out=out),
    "transpose": lambda out, x: copied(out, np.swapaxes(x, -2, -1)),
    "permute": lambda out, x, dims: copied(out, np.transpose(x, dims)),
    "copy": copied,
    "cast": lambda out, x, dtype: copied(out, x),
    "concat": lambda out, *parts, dim: np.concatenate(parts, axis=dim, out=out),
    "cumsum": lambda out, x, dim: np.cumsum(x, axis=dim, out=out),
    "where": lambda out, condition, x, y: np.where(condition, x, y),
    "gather": lambda out, x, index, dim: np.take_along_axis(x, index, axis=dim),
    # Without "clip", or "wrap", NumPy takes into a buffer and copies that.
    "index_select": lambda out, x, index, dim: np.take(x, index, axis=dim, out=out, mode="clip"),
}


def numpy_call(op, inputs, attributes, out):
    """A function without arguments that runs `op` by NumPy and returns its result."""
    if op in UFUNCS:
        ufunc = UFUNCS[op]
        operands = [*inputs, *attributes.values()]  # `other` is an operand too
        if len(operands) == 1:
            (x,) = operands
            return lambda: ufunc(x, out=out)
        x, y = operands
        return lambda: ufunc(x, y, out=out)
    if op in REDUCTIONS:
        reduce, (x,), dim = REDUCTIONS[op], inputs, attributes["dim"]
        return lambda: reduce(x, axis=dim, out=out)
    return functools.partial(EXPRESSIONS[op], out, *inputs, **attributes)
