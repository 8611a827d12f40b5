"""Products of users' texts: examples/matmul.hpp in all types, the same with rows that wrap around and rows by index, weights of 4 bits."""

import torch
import triton_matmul
from gpu_matmul import PRECISIONS
from gpu_timing import normal
from language_case import Call, Case
from language_row import Demand
from language_texts import text
from product_tolerance import allowed_error

# name -> m, n, k and the least speed over cuBLAS; over Triton it is 1
SHAPES = {
    "1024^3": (1024, 1024, 1024, 0.90),
    "2048^3": (2048, 2048, 2048, 0.95),
    "4096^3": (4096, 4096, 4096, 0.95),
    "8192^3": (8192, 8192, 8192, 0.95),
    "4096x7168x2048": (4096, 7168, 2048, 0.95),
}
RESULTS = {"fp8e4m3": torch.bfloat16, "i8": torch.int32}
INT4_SHAPE = (16, 28672, 8192)
SIZE = 4096  # of the square matrices of other types, and of rows
GROUP = 128  # weights with one scale and zero
ROWS_TO_DRAW_FROM = 3  # times as many as a product has


def bound_of(make_exact, out_dtype, precision, k):
    """A function of a result: its largest error over what rounding, and sums of `k` products of numbers with a variance of 1, may come to."""
    made = []

    def error(result):
        if not made:
            exact = make_exact()
            made.append((exact, allowed_error(exact, precision, out_dtype, k)))
        exact, allowed = made[0]
        return result.double().sub_(exact).abs_().div_(allowed.clamp(min=1e-30)).max().item()

    return error


def product_case(name, precision, m, n, k, demands, b_along_k=False):
    """examples/matmul.hpp beside cuBLAS and Triton in 16 bits, and beside Kiln's own product."""
    dtype = PRECISIONS[precision]
    a, stored = normal((m, k), dtype), normal((n, k), dtype)
    b = stored.T if b_along_k else stored.T.contiguous()
    out = torch.empty((m, n), device="cuda", dtype=RESULTS.get(precision, dtype))
    order = "b along k" if b_along_k else "b along n"
    peers, triton = {}, None
    built_in = Call("matmul", [a, b], is_tuned=False)
    if precision in ("bf16", "f16"):
        peers = {"cublas": lambda: torch.matmul(a, b, out=out)}
        triton = lambda measure: triton_matmul.tuned(measure, a, b, out)
    elif precision == "tf32":
        built_in.attributes["precision"] = "tf32"
        peers = {"cublas": lambda: torch.matmul(a, b, out=out)}
    elif precision == "fp8e4m3":
        one = torch.ones((), device="cuda")
        built_in = Call("scaled_matmul", [a, b, one, one], is_tuned=False)
    return Case(
        f"matmul {name}, {order}",
        {"dtype": precision, "order": order, "m": m, "n": n, "k": k},
        Call(text("matmul").matmul, [a, stored if b_along_k else b], {"b_along_k": b_along_k}),
        out,
        error=bound_of(lambda: a.double() @ b.double(), out.dtype, precision, k),
        flops=2 * m * n * k,
        bytes=a.nbytes + b.nbytes + out.nbytes,
        demands=demands,
        peers=peers,
        beside={"kiln built in": built_in},
        triton=triton,
    )


def matmul_cases():
    for precision in ("bf16", "f16"):
        for name, (m, n, k, least) in SHAPES.items():
            yield product_case(name, precision, m, n, k, [Demand({"triton": 1.0}), Demand({"cublas": least})])


def type_cases():
    """Other types, held to Kiln's own product where b lies along k, as the tensor cores read it."""
    for precision in ("tf32", "fp8e4m3", "i8"):
        for b_along_k in (True, False):
            demands = [Demand({"kiln built in": 0.9})] if b_along_k else []
            yield product_case(f"{SIZE}^3", precision, SIZE, SIZE, SIZE, demands, b_along_k)
    yield product_case(f"{SIZE}^3", "bf16", SIZE, SIZE, SIZE, [], True)


def drawn_cases(shapes):
    """Shapes that nobody tuned for, in both 16-bit types and both orders in turns."""
    for place, (name, (m, n, k)) in enumerate(shapes.items()):
        yield product_case(name, ("bf16", "f16")[place % 2], m, n, k, [], b_along_k=place // 2 % 2 == 1)


def row_cases():
    """The text with `% m` and `% n` in its addresses, and with rows by an index, beside itself without."""
    m = n = k = SIZE
    texts = text("matmul")
    a, b = normal((ROWS_TO_DRAW_FROM * m, k), torch.bfloat16), normal((k, n), torch.bfloat16)
    index = torch.randperm(a.shape[0], device="cuda")[:m].int()
    rows = {"wrapped": a[:m], "by index": a[index.long()]}
    calls = {"wrapped": Call(texts.wrapped_matmul, [a[:m], b]), "by index": Call(texts.matmul_of_rows, [a, index, b])}
    for name, of in rows.items():
        out = torch.empty((m, n), device="cuda", dtype=a.dtype)
        yield Case(
            f"matmul {SIZE}^3, rows {name}",
            {"dtype": "bf16", "m": m, "n": n, "k": k},
            calls[name],
            out,
            error=bound_of(lambda: of.double() @ b.double(), out.dtype, "bf16", k),
            flops=2 * m * n * k,
            bytes=of.nbytes + b.nbytes + out.nbytes,
            demands=[Demand({"kiln text without": 0.9})],
            peers={"cublas": lambda: torch.matmul(of, b, out=out)},
            beside={"kiln text without": Call(texts.matmul, [of, b])},
        )


def int4_case():
    """Weights of 4 bits, held to what a copy of as many bytes takes."""
    m, n, k = INT4_SHAPE
    x, dtype = normal((m, k), torch.bfloat16), torch.bfloat16
    packed = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
    scale = (torch.rand((k // GROUP, n), device="cuda") * 0.01 + 0.01).to(dtype)
    zero = torch.randint(6, 10, (k // GROUP, n), device="cuda").to(dtype)
    out = torch.empty((m, n), device="cuda", dtype=dtype)
    moved = sum(tensor.nbytes for tensor in (x, packed, scale, zero, out))

    def weights():
        halves = packed.view(n, k // GROUP, GROUP // 2)
        numbers = torch.cat([halves & 15, halves >> 4], dim=2).double()
        return ((numbers - zero.T.double()[:, :, None]) * scale.T.double()[:, :, None]).view(n, k)

    made = []

    def error(result):
        """Weights are rounded to 16 bits before they are multiplied: errors of eight deviations are allowed."""
        if not made:
            exact_weights = weights()
            exact = x.double() @ exact_weights.T
            deviation = (x.double() ** 2 @ exact_weights.T**2).sqrt_()
            made.append((exact, deviation.mul_(8 * 2**-9).add_(exact.abs() * 2**-8)))
        return result.double().sub_(made[0][0]).abs_().div_(made[0][1]).max().item()

    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda")
    target, widened = torch.empty_like(source), weights().to(dtype)
    return Case(
        f"int4 matmul {m}x{n}x{k}",
        {"dtype": "bf16", "m": m, "n": n, "k": k},
        Call(text("int4_matmul").int4_matmul, [x, packed, scale, zero]),
        out,
        error=error,
        flops=2 * m * n * k,
        bytes=moved,
        demands=[Demand({"copy": 0.8})],
        peers={"cublas of 16-bit weights": lambda: torch.matmul(x, widened.T, out=out)},
        bounds={"copy of as many bytes": lambda: target.copy_(source)},
        unit="gb_s",
    )
