"""What a torch user writes for an op of Kiln: results go to `out` wherever torch takes one, and torch allocates them elsewhere."""

import functools

import torch
from torch.nn import functional

DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
    "fp8e4m3": torch.float8_e4m3fn, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
}  # fmt: skip
WITHOUT_OUT = {
    "isnan": torch.isnan, "relu": torch.relu, "silu": functional.silu, "gelu": functional.gelu,
    "leaky_relu": functional.leaky_relu,
}  # fmt: skip
REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin, "var": torch.var, "std": torch.std,
    "logsumexp": torch.logsumexp, "norm": torch.linalg.vector_norm,
}  # fmt: skip
RENAMED = {"floor_div": "floor_divide"}
OF_A_NUMBER = {"maximum": torch.clamp_min, "minimum": torch.clamp_max}
ACTIVATIONS = {"none": lambda x: x, "relu": torch.relu, "silu": functional.silu, "gelu": functional.gelu}


def reduction(op, out, x, dim):
    return REDUCTIONS[op](x, dim=tuple(range(x.ndim)) if dim is None else dim, out=out)


def add_relu(out, x, y):
    return torch.add(x, y, out=out).relu_()


def axpby(out, x, y, alpha, beta):
    return torch.mul(x, alpha, out=out).add_(y, alpha=beta)


def copied(view, out, dtype=None):
    """Without `out` the view itself, converted."""
    return view.to(dtype or view.dtype) if out is None else out.copy_(view)


def filled(out, x, value):
    return torch.full_like(x, value) if out is None else out.fill_(value)


EXPRESSIONS = {
    "mul_add": lambda out, x, y, z: torch.addcmul(z, x, y, out=out),
    "add_relu": add_relu,
    "axpby": axpby,
    "layer_norm": lambda out, x, weight, bias, eps: functional.layer_norm(x, x.shape[-1:], weight, bias, eps),
    "rms_norm": lambda out, x, weight, eps: functional.rms_norm(x, x.shape[-1:], weight, eps),
    "transpose": lambda out, x: copied(x.mT, out),
    "permute": lambda out, x, dims: copied(x.permute(dims), out),
    "copy": lambda out, x: copied(x, out),
    "cast": lambda out, x, dtype: copied(x, out, DTYPES[dtype]),
    "concat": lambda out, *parts, dim: torch.cat(parts, dim=dim, out=out),
    "fill": filled,
    "gather": lambda out, x, index, dim: torch.gather(x, dim, index, out=out),
    "index_select": lambda out, x, index, dim: torch.index_select(x, dim, index, out=out),
}


def matmul(out, a, b, c=None, alpha=1.0, beta=1.0, precision=None):
    if c is None:
        return torch.matmul(a, b, out=out)
    return (torch.addmm if a.ndim == 2 else torch.baddbmm)(c, a, b, alpha=alpha, beta=beta, out=out)


def linear(out, x, weight, bias=None, activation="none", precision=None):
    if activation != "none":
        return ACTIVATIONS[activation](functional.linear(x, weight, bias))
    return torch.matmul(x, weight.T, out=out) if bias is None else torch.addmm(bias, x, weight.T, out=out)


def fused_linear(out, x, weight, bias, activation, precision=None):
    """cuBLASLt's epilogues; its gelu is the one with tanh."""
    if out is None:
        return torch._addmm_activation(bias, x, weight.T, use_gelu=activation == "gelu")
    return torch._addmm_activation(bias, x, weight.T, use_gelu=activation == "gelu", out=out)


def scaled_matmul(out, a, b, scale_a, scale_b, out_dtype, is_fast):
    return torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=DTYPES[out_dtype], use_fast_accum=is_fast, out=out)


def torch_calls(op, inputs, attributes, out=None):
    """{name: a function without arguments that runs `op` and returns its result}: the ways that torch has, the plain one first."""
    bound = functools.partial
    if op == "matmul":
        return {"torch": bound(matmul, out, *inputs, **attributes)}
    if op == "linear":
        ways = {"torch": bound(linear, out, *inputs, **attributes)}
        if len(inputs) == 3 and attributes["activation"] in ("relu", "gelu"):
            ways["torch fused"] = bound(fused_linear, out, *inputs, **attributes)
        return ways
    if op == "scaled_matmul":
        ways = {"torch": False, "torch fast": True}
        return {way: bound(scaled_matmul, out, *inputs, **attributes, is_fast=fast) for way, fast in ways.items()}
    if op in REDUCTIONS:
        return {"torch": bound(reduction, op, out, *inputs, **attributes)}
    if op in EXPRESSIONS:
        return {"torch": bound(EXPRESSIONS[op], out, *inputs, **attributes)}
    if op in WITHOUT_OUT:
        return {"torch": bound(WITHOUT_OUT[op], *inputs, **attributes)}
    if op in OF_A_NUMBER and "other" in attributes:
        return {"torch": bound(OF_A_NUMBER[op], *inputs, attributes["other"], out=out)}
    if op == "atan2" and "other" in attributes:
        attributes = {"other": inputs[0].new_tensor(attributes["other"])}
    return {"torch": bound(getattr(torch, RENAMED.get(op, op)), *inputs, **attributes, out=out)}
