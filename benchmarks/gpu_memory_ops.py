"""Reductions, layout changes, row ops and random numbers on a GPU: Kiln beside torch and Triton, and beside a plain copy or read of the same bytes.

Prints a JSON list. Inputs are drawn from a normal distribution.
"""

import pathlib

import torch
import torch.nn.functional as F
from gpu_timing import Case, main, normal

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

READ_CONFIGS = [
    "BLOCK_SIZE=4096 STEPS=4 num_warps=4",
    "BLOCK_SIZE=4096 STEPS=8 num_warps=4",
    "BLOCK_SIZE=8192 STEPS=4 num_warps=8",
]

if triton:

    @triton.jit
    def triton_row_sum_kernel(x, out, n, BLOCK_SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        total = tl.zeros([BLOCK_SIZE], tl.float32)
        for start in range(0, n, BLOCK_SIZE):
            columns = start + tl.arange(0, BLOCK_SIZE)
            total += tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
        tl.store(out + row, tl.sum(total))

    @triton.jit
    def triton_softmax_kernel(x, out, n, BLOCK_SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK_SIZE)
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
        numerator = tl.exp(values - tl.max(values))
        tl.store(out + row * n + columns, numerator / tl.sum(numerator), mask=columns < n)

    @triton.jit
    def triton_online_softmax_kernel(x, out, n, BLOCK_SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        largest = tl.full([BLOCK_SIZE], -float("inf"), tl.float32)
        total = tl.zeros([BLOCK_SIZE], tl.float32)
        for start in range(0, n, BLOCK_SIZE):
            columns = start + tl.arange(0, BLOCK_SIZE)
            values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf")).to(tl.float32)
            larger = tl.maximum(largest, values)
            total = total * tl.exp(largest - larger) + tl.exp(values - larger)
            largest = larger
        maximum = tl.max(largest)
        scale = 1.0 / tl.sum(total * tl.exp(largest - maximum))
        for start in range(0, n, BLOCK_SIZE):
            columns = start + tl.arange(0, BLOCK_SIZE)
            values = tl.load(x + row * n + columns, mask=columns < n).to(tl.float32)
            tl.store(out + row * n + columns, tl.exp(values - maximum) * scale, mask=columns < n)

    @triton.jit
    def triton_layer_norm_kernel(x, weight, bias, out, n, eps, BLOCK_SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK_SIZE)
        mask = columns < n
        values = tl.load(x + row * n + columns, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(values) / n
        centred = tl.where(mask, values - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred) / n + eps)
        tl.store(
            out + row * n + columns,
            centred * scale * tl.load(weight + columns, mask=mask) + tl.load(bias + columns, mask=mask),
            mask=mask,
        )

    @triton.jit
    def triton_rms_norm_kernel(x, weight, out, n, eps, BLOCK_SIZE: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        columns = tl.arange(0, BLOCK_SIZE)
        mask = columns < n
        values = tl.load(x + row * n + columns, mask=mask, other=0.0).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(values * values) / n + eps)
        tl.store(out + row * n + columns, values * scale * tl.load(weight + columns, mask=mask), mask=mask)

    @triton.jit
    def triton_randn_kernel(out, n, seed, BLOCK_SIZE: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        a, b, c, d = tl.randn4x(seed, offsets)
        base = tl.program_id(0) * BLOCK_SIZE * 4 + tl.arange(0, BLOCK_SIZE)
        tl.store(out + base, a, mask=base < n)
        tl.store(out + base + BLOCK_SIZE, b, mask=base + BLOCK_SIZE < n)
        tl.store(out + base + 2 * BLOCK_SIZE, c, mask=base + 2 * BLOCK_SIZE < n)
        tl.store(out + base + 3 * BLOCK_SIZE, d, mask=base + 3 * BLOCK_SIZE < n)


def warps(n):
    return min(32, max(4, n // 1024))


def peers_of(call):
    """A Triton launch as a provider; nothing without Triton."""
    return {"triton": call} if triton else {}


def plain_copies(kiln, out, x):
    """The same bytes, moved without change, by Kiln and by torch."""
    source, target = x.reshape(-1), out.view(x.dtype).reshape(-1)
    return {"kiln copy": kiln.resolve("copy", [target], [source]), "torch copy": lambda: target.copy_(source)}


def plain_reads(kiln, x):
    words, out = x.reshape(-1).view(torch.float32), torch.empty(1, device="cuda")
    return {f"read {config}": kiln.resolve("benchmark_read", [out], [words], config=config) for config in READ_CONFIGS}


def reductions(kiln):
    n = 16384
    for dtype in (torch.float32, torch.bfloat16):
        x = normal((n, n), dtype)
        reads = plain_reads(kiln, x)
        row_out = torch.empty(n, device="cuda", dtype=dtype)
        tolerance = {"rtol": 1e-4, "atol": 2e-2}  # sums of 16384 and more numbers around zero
        yield Case(
            "sum of all 16384^2",
            "sum",
            [torch.empty((), device="cuda", dtype=dtype)],
            [x],
            lambda: torch.sum(x),
            bounds=reads,
            rtol=1e-2,
            atol=2.0,
        )
        yield Case(
            "sum over the last dim 16384^2",
            "sum",
            [row_out],
            [x],
            lambda: torch.sum(x, -1),
            {"dim": -1},
            peers_of(lambda: triton_row_sum_kernel[(n,)](x, row_out, n, BLOCK_SIZE=4096)),
            reads,
            **tolerance,
        )
        yield Case(
            "sum over the first dim 16384^2",
            "sum",
            [row_out],
            [x],
            lambda: torch.sum(x, 0),
            {"dim": 0},
            bounds=reads,
            **tolerance,
        )
        index = torch.empty(n, device="cuda", dtype=torch.int64)
        yield Case(
            "argmax over the last dim 16384^2",
            "argmax",
            [index],
            [x],
            lambda: torch.argmax(x, -1),
            {"dim": -1},
            bounds=reads,
        )
        yield Case(
            "amax over the last dim 16384^2",
            "amax",
            [row_out],
            [x],
            lambda: torch.amax(x, -1),
            {"dim": -1},
            bounds=reads,
        )
        yield Case(
            "var over the last dim 16384^2",
            "var",
            [row_out],
            [x],
            lambda: torch.var(x, -1),
            {"dim": -1},
            bounds=reads,
            rtol=1e-4,
        )
        yield Case(
            "logsumexp over the last dim 16384^2",
            "logsumexp",
            [row_out],
            [x],
            lambda: torch.logsumexp(x, -1),
            {"dim": -1},
            bounds=reads,
            rtol=1e-5,
        )
        del x, reads


def layouts(kiln):
    for shape in ((16384, 16384), (10007, 9973)):
        for dtype in (torch.float32, torch.bfloat16, torch.int8):
            x = normal(shape, dtype)
            out = torch.empty(shape[::-1], device="cuda", dtype=dtype)

            def torch_transpose():
                out.copy_(x.T)

            yield Case(
                f"transpose {shape[0]}x{shape[1]}",
                "transpose",
                [out],
                [x],
                torch_transpose,
                bounds=plain_copies(kiln, out, x),
            )
            del x, out
    x = normal((32, 2048, 32, 128), torch.bfloat16)
    out = torch.empty((32, 32, 2048, 128), device="cuda", dtype=x.dtype)

    def torch_permute():
        out.copy_(x.permute(0, 2, 1, 3))

    yield Case(
        "permute (0,2,1,3) of 32x2048x32x128",
        "permute",
        [out],
        [x],
        torch_permute,
        {"dims": [0, 2, 1, 3]},
        bounds=plain_copies(kiln, out, x),
    )


def row_ops(kiln):
    for dtype in (torch.float32, torch.bfloat16):
        for rows, n in ((32768, 4096), (4096, 32768), (128, 1 << 20)):
            x = normal((rows, n), dtype)
            out = torch.empty_like(x)

            def torch_softmax():
                torch.ops.aten._softmax.out(x, -1, False, out=out)

            one_pass = n <= 32768
            peer = peers_of(
                (
                    lambda: triton_softmax_kernel[(rows,)](
                        x, out, n, BLOCK_SIZE=triton.next_power_of_2(n), num_warps=warps(n)
                    )
                )
                if one_pass
                else lambda: triton_online_softmax_kernel[(rows,)](x, out, n, BLOCK_SIZE=8192, num_warps=16)
            )
            yield Case(
                f"softmax {rows}x{n}",
                "softmax",
                [out],
                [x],
                torch_softmax,
                {"dim": -1},
                peer,
                plain_copies(kiln, out, x),
                rtol=2e-5,
                atol=1e-6,
            )
            del x, out
        rows, n = 32768, 4096
        x, weight, bias = normal((rows, n), dtype), normal((n,), dtype), normal((n,), dtype)
        out = torch.empty_like(x)
        copies = plain_copies(kiln, out, x)
        yield Case(
            f"layer_norm {rows}x{n}",
            "layer_norm",
            [out],
            [x, weight, bias],
            lambda: F.layer_norm(x, (n,), weight, bias),
            {},
            peers_of(lambda: triton_layer_norm_kernel[(rows,)](x, weight, bias, out, n, 1e-5, BLOCK_SIZE=n)),
            copies,
            rtol=1e-4,
            atol=1e-4,
        )
        yield Case(
            f"rms_norm {rows}x{n}",
            "rms_norm",
            [out],
            [x, weight],
            lambda: F.rms_norm(x, (n,), weight, 1e-6),
            {"eps": 1e-6},
            peers_of(lambda: triton_rms_norm_kernel[(rows,)](x, weight, out, n, 1e-6, BLOCK_SIZE=n)),
            copies,
            rtol=1e-4,
            atol=1e-4,
        )
        yield Case(
            f"cumsum over the last dim {rows}x{n}",
            "cumsum",
            [out],
            [x],
            lambda: torch.cumsum(x, -1),
            {"dim": -1},
            bounds=copies,
            expected=lambda: torch.cumsum(x.double(), -1).to(dtype),
            rtol=1e-4,
            atol=1e-2,
        )
        del x, out, copies


def random_numbers(kiln):
    out = torch.empty(1 << 28, device="cuda")

    def torch_normal():
        out.normal_()

    def torch_uniform():
        out.uniform_()

    size = {"size": [1 << 28], "seed": 7}
    peer = peers_of(lambda: triton_randn_kernel[(triton.cdiv(1 << 28, 4096),)](out, 1 << 28, 7, BLOCK_SIZE=1024))
    yield Case("normal 2^28", "normal", [out], [], torch_normal, size, peer, compared=False)
    yield Case("uniform 2^28", "uniform", [out], [], torch_uniform, size, compared=False)


def indexing(kiln):
    table, index = normal((1 << 18, 1024), torch.bfloat16), torch.randint(0, 1 << 18, (1 << 17,), device="cuda")
    out = torch.empty((1 << 17, 1024), device="cuda", dtype=table.dtype)

    def torch_select():
        torch.index_select(table, 0, index, out=out)

    yield Case(
        "index_select 2^17 rows of 1024 out of 2^18", "index_select", [out], [table, index], torch_select, {"dim": 0}
    )


def cases(kiln):
    kiln.register_read(pathlib.Path(__file__).with_name("read_kernel.hpp"))
    for family in (reductions, layouts, row_ops, random_numbers, indexing):
        yield from family(kiln)


if __name__ == "__main__":
    main(__doc__, cases)
