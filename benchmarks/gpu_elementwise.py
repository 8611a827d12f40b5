"""Elementwise ops on a GPU: Kiln beside torch and Triton. Prints a JSON list. Inputs are drawn from a normal distribution."""

import torch
from gpu_timing import Case, main, normal

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton:

    @triton.jit
    def triton_add_kernel(x, y, out, n, BLOCK_SIZE: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def triton_add(x, y, out):
    if not triton:
        return {}
    grid = (triton.cdiv(x.numel(), 1024),)
    return {"triton": lambda: triton_add_kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=1024)}


def add(name, out, *inputs, peers=None):
    def torch_add():
        torch.add(*inputs, out=out)

    return Case(name, "add", [out], list(inputs), torch_add, peers=peers or {})


def cases(kiln):
    for dtype in (torch.float32, torch.bfloat16):
        for log2 in (20, 24, 28):
            x, y = normal(1 << log2, dtype), normal(1 << log2, dtype)
            out = torch.empty_like(x)
            yield add(f"add 2^{log2}", out, x, y, peers=triton_add(x, y, out))
            del x, y, out
    for dtype in (torch.float32, torch.bfloat16):
        n = 16384
        x, row, column = normal((n, n), dtype), normal((n,), dtype), normal((n, 1), dtype)
        out = torch.empty_like(x)
        other = normal((n, n), dtype)
        wide = normal((n, 2 * n), dtype)
        yield add("add row broadcast 16384^2 + (16384,)", out, x, row)
        yield add("add column broadcast 16384^2 + (16384, 1)", out, x, column)
        yield add("add outer (16384, 1) + (16384,)", out, column, row)
        yield add("add transposed x.T + y, 16384^2", out, x.T, other)
        yield add("add step 2, x[:, ::2] + y, 16384^2", out, wide[:, ::2], other)
        yield add("add half rows, x[:, :16384] + y of 32768 wide rows", out, wide[:, :n], other)
        del x, row, column, out, other, wide
    x = normal((1000003, 3, 3), torch.float32)
    yield add("add (1000003, 3, 3) + (3, 1)", torch.empty_like(x), x, normal((3, 1), torch.float32))
    x = normal(1 << 28, torch.bfloat16)
    out = torch.empty_like(x)
    for op, call in {
        "exp": lambda: torch.exp(x, out=out),
        "tanh": lambda: torch.tanh(x, out=out),
        "sigmoid": lambda: torch.sigmoid(x, out=out),
        "gelu": lambda: torch.ops.aten.gelu.out(x, out=out),
        "silu": lambda: torch.ops.aten.silu.out(x, out=out),
        "relu": lambda: torch.clamp(x, min=0, out=out),
    }.items():
        yield Case(f"{op} 2^28", op, [out], [x], call)


if __name__ == "__main__":
    main(__doc__, cases)
