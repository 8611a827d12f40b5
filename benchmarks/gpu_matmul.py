"""matmul and linear_relu on a GPU: Kiln beside cuBLAS and cuBLASLt (through torch) and a tuned Triton kernel. Prints a JSON list.

A row is one shape, dtype and layout of Kiln's call, beside its peers in both layouts: NN has b as (k, n), NT as the transpose of an (n, k) matrix. `demands` says what
Kiln is held to: its speed over the best of the peers whose names start so. Inputs are drawn from a normal distribution; every provider is compared with a
double-precision product first, and Kiln's results with themselves.
"""

import argparse
import concurrent.futures
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable

import case_run
import torch
import triton_matmul
from gpu_timing import measure, normal, summary
from kiln_library import Kiln
from peer_speed import speed_over
from product_tolerance import allowed_error
from triton_compilation import Compilation

# name -> m, n, k, batches, demanded speed over cuBLAS
SHAPES = {
    "512^3": (512, 512, 512, 0, 1.0),
    "1024^3": (1024, 1024, 1024, 0, 1.0),
    "2048^3": (2048, 2048, 2048, 0, 1.0),
    "4096^3": (4096, 4096, 4096, 0, 1.0),
    "8192^3": (8192, 8192, 8192, 0, 1.0),
    "4096x7168x2048": (4096, 7168, 2048, 0, 1.0),
    "16x4096x4096": (16, 4096, 4096, 0, 1.0),
    "128x7168x2048": (128, 7168, 2048, 0, 1.0),
    "128x4096x7168": (128, 4096, 7168, 0, 1.0),
    "1000^3": (1000, 1000, 1000, 0, 1.5),
    "4095x4097x4093": (4095, 4097, 4093, 0, 3.0),
    "64x512^3": (512, 512, 512, 64, 1.0),
}
PRECISIONS = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "tf32": torch.float32,
    "f32": torch.float32,
    "fp8e4m3": torch.float8_e4m3fn,
    "i8": torch.int8,
}
PEERS_BOUNDS = 32  # a peer may be off by as many of Kiln's bounds: cuBLAS adds parts of k in 16 bits
# For --tuned: those of ops/matmul/tiling_sm90.cpp and their neighbours; the ones that a call's variant cannot take are left out.
TUNED_CONFIGS = [
    "BLOCK_M={} BLOCK_N={} NUM_STAGES={} CLUSTER_M={} CLUSTER_N={} SPLIT_K={} MATH_GROUPS={} TILE_EACH={}".format(
        *values
    )
    for values in (
        (128, 256, 4, 2, 1, 1, 2, 0),
        (128, 256, 4, 1, 1, 1, 2, 0),
        (256, 128, 4, 2, 1, 1, 2, 0),
        (256, 128, 4, 1, 2, 1, 2, 0),
        (128, 128, 6, 2, 1, 1, 2, 1),
        (128, 128, 6, 2, 1, 1, 2, 0),
        (128, 128, 6, 1, 2, 1, 2, 0),
        (128, 192, 4, 1, 2, 1, 2, 0),
        (128, 64, 8, 1, 2, 1, 2, 0),
        (128, 64, 8, 1, 1, 1, 2, 0),
        (64, 128, 8, 2, 1, 1, 1, 0),
        (64, 128, 8, 1, 1, 1, 1, 0),
        (128, 64, 7, 1, 1, 2, 2, 0),
        (64, 64, 8, 1, 1, 1, 1, 0),
        (64, 64, 8, 1, 1, 2, 1, 0),
        (64, 64, 8, 1, 1, 4, 1, 0),
        (128, 16, 10, 1, 1, 1, 2, 0),
        (128, 16, 10, 1, 1, 2, 2, 0),
        (64, 16, 15, 1, 1, 1, 1, 0),
        (128, 32, 9, 1, 1, 2, 2, 0),
        (128, 32, 9, 1, 1, 4, 2, 0),
        (64, 32, 12, 1, 1, 1, 1, 0),
    )
]


@dataclasses.dataclass
class Call:
    """One of Kiln's ops over tensors."""

    op: str
    inputs: list
    attributes: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Case:
    name: str
    precision: str
    extents: tuple  # m, n, k, batches
    out: torch.Tensor
    calls: dict  # layout -> Call
    peers: dict  # name -> call that writes `out`
    exact: Callable  # the result in double precision
    demands: dict  # start of the peers' names -> least speed over the best of them
    beside: dict = dataclasses.field(
        default_factory=dict
    )  # name -> another Call that takes part; its result may differ
    triton: dict = dataclasses.field(default_factory=dict)  # layout -> operands


def operands(m, n, k, batches, dtype):
    """a (m, k), and b (k, n) by layout: the same numbers."""
    batch = (batches,) if batches else ()
    a, stored = normal((*batch, m, k), dtype), normal((*batch, n, k), dtype)
    return a, {"NN": stored.mT.contiguous(), "NT": stored.mT}


def matmul_case(name, precision, extents, demanded, attributes=None, product=torch.matmul, out_dtype=None):
    m, n, k, batches = extents
    a, b = operands(m, n, k, batches, PRECISIONS[precision])
    out = torch.empty((*a.shape[:-1], n), device="cuda", dtype=out_dtype or a.dtype)
    return Case(
        f"matmul {name}",
        precision,
        extents,
        out,
        calls={layout: Call("matmul", [a, b[layout]], attributes or {}) for layout in b},
        peers={f"torch {layout}": lambda layout=layout: product(a, b[layout], out=out) for layout in b},
        exact=lambda: a.double() @ b["NN"].double(),
        demands={"torch": demanded} if demanded else {},
        triton={layout: (a, b[layout]) for layout in b} if precision in ("bf16", "f16") else {},
    )


def linear_case(name, precision, extents):
    """A batch shares one weight: its rows are rows of one matrix, also to cuBLASLt."""
    m, n, k, batches = extents
    x, b = operands(m * max(batches, 1), n, k, 0, PRECISIONS[precision])
    bias = normal((n,), x.dtype)
    out = torch.empty((x.shape[0], n), device="cuda", dtype=x.dtype)
    fused = torch.ops.aten._addmm_activation.out
    return Case(
        f"linear_relu {name}",
        precision,
        extents,
        out,
        calls={"NT": Call("linear_relu", [x, b["NT"].T, bias])},
        peers={
            f"torch {layout}": lambda layout=layout: fused(bias, x, b[layout], use_gelu=False, out=out) for layout in b
        },
        exact=lambda: (x.double() @ b["NN"].double() + bias.double()).clamp(min=0),
        demands={"torch": 1.0, "kiln matmul": 0.97},
        beside={"kiln matmul": Call("matmul", [x, b["NT"]])},
    )


def fp8_case(size):
    a, b = operands(size, size, size, 0, torch.float8_e4m3fn)
    scale = torch.ones((), device="cuda")
    out = torch.empty((size, size), device="cuda", dtype=torch.bfloat16)

    def scaled(is_fast):
        return lambda: torch._scaled_mm(a, b["NT"], scale, scale, out_dtype=out.dtype, use_fast_accum=is_fast, out=out)

    return Case(
        f"scaled_matmul {size}^3",
        "fp8e4m3",
        (size, size, size, 0),
        out,
        calls={layout: Call("scaled_matmul", [a, b[layout], scale, scale]) for layout in b},
        peers={"torch NT": scaled(False), "torch NT fast": scaled(True)},
        exact=lambda: a.double() @ b["NN"].double(),
        demands={"torch": 0.95},
    )


def packed_case(name, precision, extents, stored_as_in_out):
    """linear of a weight that pack_weight packed, beside the weight as it was stored: with rows between aligned addresses, or as (in, out)."""
    m, n, k, _ = extents
    x, weight = normal((m, k), PRECISIONS[precision]), normal((n, k), PRECISIONS[precision])
    stored = weight.T.contiguous().T if stored_as_in_out else weight
    line = 128 // weight.element_size()
    packed = torch.empty((n, -(-k // line) * line), device="cuda", dtype=weight.dtype)[:, :k].copy_(weight)
    out = torch.empty((m, n), device="cuda", dtype=torch.bfloat16 if precision == "fp8e4m3" else x.dtype)
    return Case(
        f"linear {name}",
        precision,
        extents,
        out,
        calls={"packed": Call("linear", [x, packed])},
        peers={"torch": lambda: torch.matmul(x, stored.T, out=out)} if precision != "fp8e4m3" else {},
        exact=lambda: x.double() @ weight.T.double(),
        demands={"kiln as stored": 1.0},
        beside={"kiln as stored": Call("linear", [x, stored])},
    )


def cases(precisions):
    for precision in precisions:
        extents = (4096, 4096, 4096, 0)
        if precision in ("bf16", "f16"):
            for name, (*extents, demanded) in SHAPES.items():
                yield matmul_case(name, precision, extents, demanded)
                yield linear_case(name, precision, extents)
            if precision == "bf16":
                for m in (4096, 16):
                    yield packed_case(f"{m}x4096x4093", precision, (m, 4096, 4093, 0), False)
        elif precision == "tf32":
            yield matmul_case("4096^3", precision, extents, 0.95, {"precision": "tf32"})
        elif precision == "f32":
            yield matmul_case("4096^3", precision, extents, 0.9)
        elif precision == "fp8e4m3":
            yield fp8_case(4096)
            yield packed_case("4096^3 of (in, out)", precision, extents, True)
        else:
            yield matmul_case("4096^3", precision, extents, None, product=torch._int_mm, out_dtype=torch.int32)


def resolve_all(kiln, chosen, configs):
    """For each case {provider: a function that launches Kiln, or the error it ended with}, all compiled at once."""

    def attempt(case, call, config):
        try:
            return kiln.resolve(call.op, [case.out], call.inputs, call.attributes, config)
        except RuntimeError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        futures = []
        for case in chosen:
            calls = {f"kiln {layout}": (call, None) for layout, call in case.calls.items()}
            calls |= {
                f"kiln {layout} {config}": (call, config) for layout, call in case.calls.items() for config in configs
            }
            calls |= {name: (call, None) for name, call in case.beside.items()}
            futures.append({name: pool.submit(attempt, case, *call) for name, call in calls.items()})
        return [{name: future.result() for name, future in case.items()} for case in futures]


def check(case, exact, run, bounds=1):
    """The largest error over what is allowed; AssertionError above `bounds`, and where a second run gives something else."""
    results = []
    for _ in range(2):
        case.out.fill_(float("nan") if case.out.is_floating_point() else 77)
        run()
        results.append(case.out.clone())
    allowed = allowed_error(exact, case.precision, case.out.dtype, case.extents[2]).clamp_(min=1e-30)
    error = results[0].double().sub_(exact).abs_().div_(allowed).max().item()
    assert error <= bounds, f"off by {error:.3g} times what is allowed"
    assert torch.equal(*results) or bounds > 1, "a second run gives another result"
    return error


def with_triton(case, flush):
    """{name: call} and {name: config} for both layouts, tuned."""
    calls, configs = {}, {}
    for layout, (a, b) in case.triton.items():
        for config, call in triton_matmul.tuned(
            lambda candidates: measure(candidates, 6, flush), a, b, case.out
        ).items():
            calls[f"triton {layout}"], configs[f"triton {layout}"] = call, config
    return calls, configs


def held_to(demanded, speed):
    return {**speed, "demanded": demanded, "met": speed["speed"] >= demanded}


def row_of(case, layout, times, runs, extra):
    own = f"kiln {layout}"
    m, n, k, batches = case.extents
    row = {
        "case": f"{case.name} {layout}",
        "op": case.calls[layout].op,
        "dtype": case.precision,
        "layout": layout,
        "m": m,
        "n": n,
        "k": k,
        "batches": batches,
    }
    row.update(config=runs[own].config, flops=runs[own].flops, bytes=runs[own].bytes, samples=len(times[own]))
    kept = {"kiln": own} | {
        name: name for name in times if name.startswith(("torch", "triton", *case.beside, own + " "))
    }
    for label, name in kept.items():
        row[label] = summary(times[name], row["bytes"])
        row[label]["tflops"] = row["flops"] / row[label]["median_us"] / 1e6
        row[label].update(extra.get(name, {}))
    row["demands"] = {}
    for start, demanded in case.demands.items():
        if peers := [name for name in times if name.startswith(start)]:
            row["demands"][start] = held_to(demanded, speed_over(peers, times, own))
    if peers := [name for name in times if name.startswith("triton")]:
        row["over_triton"] = speed_over(peers, times, own)
    if tried := [name for name in times if name.startswith(own + " ")]:
        best = min([own, *tried], key=lambda name: statistics.median(times[name]))
        row["best_config"] = row["config"] if best == own else best.removeprefix(own + " ")
        row["demands"]["best config"] = held_to(1 / 1.1, speed_over([best], times, own))
    return row


def report(row):
    speeds = "  ".join(
        f"{name} {row[name]['tflops']:.0f}"
        for name in row
        if isinstance(row[name], dict) and "tflops" in row[name] and "=" not in name
    )
    demands = "  ".join(
        f"x{d['speed']:.3f} (mean {d['mean_speed']:.3f}) of {over}{'' if d['met'] else ' SHORT'}"
        for over, d in row["demands"].items()
    )
    best = f"  best [{row['best_config']}]" if "best_config" in row else ""
    print(
        f"{row['case']:28} {row['dtype']:8} {speeds}  {demands}  [{row['config']}]{best}", file=sys.stderr, flush=True
    )


def measured_rows(case, runs, samples, flush):
    """The rows of one case."""
    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    exact = case.exact()
    extra, providers, failed = {}, {}, {}
    triton_calls, triton_configs = with_triton(case, flush)
    for name, run in {**runs, **case.peers, **triton_calls}.items():
        try:
            if isinstance(run, RuntimeError):
                raise run
            if name not in case.beside:
                extra[name] = {
                    "error_of_allowed": check(case, exact, run, 1 if name.startswith("kiln") else PEERS_BOUNDS)
                }
            providers[name] = run
        except (RuntimeError, AssertionError) as error:  # the others still count
            failed[name] = str(error).strip()[:300]
    for name in triton_configs.keys() & extra.keys():
        extra[name]["config"] = triton_configs[name]
    del exact
    m, n, k, batches = case.extents
    times = measure(providers, samples * (4 if m * n * k * max(batches, 1) <= 2**33 else 1), flush)
    for layout in case.calls:
        own = f"kiln {layout}"
        row = (
            row_of(case, layout, times, runs, extra)
            if own in times
            else {"case": f"{case.name} {layout}", "dtype": case.precision, "failed": failed[own]}
        )
        row["left_out"] = {
            name: error for name, error in failed.items() if not name.startswith("kiln N") or name.startswith(own + " ")
        }
        if "failed" in row:
            print(f"{row['case']} {row['dtype']}: FAILED: {row['failed']}", file=sys.stderr, flush=True)
        else:
            report(row)
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument(
        "--samples",
        type=int,
        default=60,
        help="of a product that takes 20 us and more; shorter ones vary more and get four times as many",
    )
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    parser.add_argument("--dtypes", nargs="*", default=list(PRECISIONS), choices=list(PRECISIONS))
    parser.add_argument(
        "--configs", nargs="*", default=[], help="also measure these configs of the chosen variant, and report the best"
    )
    parser.add_argument("--tuned", action="store_true", help="the same with a list of configs for sm_90a")
    arguments = parser.parse_args()
    started = time.monotonic()
    torch.manual_seed(7)
    chosen = [case for case in cases(arguments.dtypes) if arguments.only in case.name]
    compilation = Compilation(triton_matmul.compilations({case.out.dtype for case in chosen if case.triton}))
    kiln = Kiln(arguments.library, torch.cuda.current_stream().cuda_stream)
    resolved = resolve_all(kiln, chosen, [*arguments.configs, *(TUNED_CONFIGS if arguments.tuned else [])])
    resolved_s = time.monotonic() - started
    compilation.wait()
    print(
        f"Kiln compiled after {resolved_s:.1f} s, Triton after {time.monotonic() - started:.1f} s",
        file=sys.stderr,
        flush=True,
    )
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    rows = [row for case, runs in zip(chosen, resolved) for row in measured_rows(case, runs, arguments.samples, flush)]
    case_run.end(rows, rows, started)


if __name__ == "__main__":
    main()
