"""Elementwise ops on a GPU: Kiln, torch and Triton in one process, one stream, one clock. Prints a JSON list.

Each sample: the L2 is overwritten, then one call between two events; the overwrite outlasts the host's work, so events see the device alone. Providers take turns
within a round. Inputs are drawn from a normal distribution.
"""

import argparse
import ctypes
import json
import statistics
import sys

import torch

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


class BenchTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


class Kiln:
    """Resolved ops of libkiln_bench.so over torch tensors."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.kiln_bench_error.restype = ctypes.c_char_p
        self.library.kiln_bench_resolve.restype = ctypes.c_void_p
        self.library.kiln_bench_config.restype = ctypes.c_char_p
        self.library.kiln_bench_config.argtypes = [ctypes.c_void_p]
        self.library.kiln_bench_launch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def resolve(self, op, output, inputs, config=None):
        tensors = [output, *inputs]
        described = (BenchTensor * len(tensors))()
        for slot, tensor in zip(described, tensors):
            rank = tensor.dim()
            slot.data = tensor.data_ptr()
            slot.dtype = str(tensor.dtype).removeprefix("torch.").encode()
            slot.ndim = rank
            slot.shape = (ctypes.c_int64 * rank)(*tensor.shape)
            slot.strides = (ctypes.c_int64 * rank)(*tensor.stride())
        call = self.library.kiln_bench_resolve(op.encode(), described, 1, len(tensors), config.encode() if config else None)
        if not call:
            raise RuntimeError(self.library.kiln_bench_error().decode())
        call = ctypes.c_void_p(call)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        launch = self.library.kiln_bench_launch

        def run():
            if launch(call, stream):
                raise RuntimeError(self.library.kiln_bench_error().decode())

        run.config = self.library.kiln_bench_config(call).decode()
        return run


def measure(providers, samples, flush):
    """Microseconds per sample, by provider name."""
    times = {name: [] for name in providers}
    for run in providers.values():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    for _ in range(samples):
        pending = []
        for name, run in providers.items():
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.zero_()
            start.record()
            run()
            stop.record()
            pending.append((name, start, stop))
        torch.cuda.synchronize()
        for name, start, stop in pending:
            times[name].append(start.elapsed_time(stop) * 1e3)
    return times


def summary(samples_us, moved_bytes):
    ordered = sorted(samples_us)
    median = statistics.median(ordered)
    return {
        "median_us": median,
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
        "gb_s": moved_bytes / median / 1e3,
    }


def normal(shape, dtype):
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def cases():
    """(name, op, output, inputs, torch call, whether Triton's plain add applies)"""
    for dtype in (torch.float32, torch.bfloat16):
        for log2 in (20, 24, 28):
            x, y = normal(1 << log2, dtype), normal(1 << log2, dtype)
            out = torch.empty_like(x)
            yield f"add 2^{log2}", "add", out, [x, y], lambda x=x, y=y, out=out: torch.add(x, y, out=out), True
            del x, y, out
    for dtype in (torch.float32, torch.bfloat16):
        n = 16384
        x, row, column = normal((n, n), dtype), normal((n,), dtype), normal((n, 1), dtype)
        out = torch.empty_like(x)
        other = normal((n, n), dtype)
        wide = normal((n, 2 * n), dtype)
        for name, inputs in {
            "add row broadcast 16384^2 + (16384,)": [x, row],
            "add column broadcast 16384^2 + (16384, 1)": [x, column],
            "add outer (16384, 1) + (16384,)": [column, row],
            "add transposed x.T + y, 16384^2": [x.T, other],
            "add step 2, x[:, ::2] + y, 16384^2": [wide[:, ::2], other],
            "add half rows, x[:, :16384] + y of 32768 wide rows": [wide[:, :n], other],
        }.items():
            yield name, "add", out, inputs, lambda a=inputs, out=out: torch.add(*a, out=out), False
        del x, row, column, out, other, wide
    x = normal((1000003, 3, 3), torch.float32)
    y = normal((3, 1), torch.float32)
    out = torch.empty_like(x)
    yield "add (1000003, 3, 3) + (3, 1)", "add", out, [x, y], lambda: torch.add(x, y, out=out), False
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
        yield f"{op} 2^28", op, out, [x], call, False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--samples", type=int, default=60)
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    parser.add_argument("--configs", nargs="*", default=[], help="also measure these configs of the chosen variant")
    arguments = parser.parse_args()

    torch.manual_seed(7)
    kiln = Kiln(arguments.library)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    rows = []
    for name, op, out, inputs, torch_call, plain_add in cases():
        if arguments.only not in name:
            continue
        torch_call()
        expected = out.clone()
        out.fill_(float("nan"))
        run = kiln.resolve(op, out, inputs)
        run()
        torch.cuda.synchronize()
        torch.testing.assert_close(out, expected, rtol=1.6e-2 if out.dtype == torch.bfloat16 else 2e-6, atol=1e-5)
        providers = {"kiln": run, "torch": torch_call}
        for config in arguments.configs:
            try:
                providers["kiln " + config] = kiln.resolve(op, out, inputs, config)
            except RuntimeError as error:
                print(name, config, error, file=sys.stderr)
        if triton and plain_add:
            x, y = inputs
            grid = (triton.cdiv(x.numel(), 1024),)
            providers["triton"] = lambda: triton_add_kernel[grid](x, y, out, x.numel(), BLOCK_SIZE=1024)
        samples = measure(providers, arguments.samples, flush)
        moved = sum(t.untyped_storage().nbytes() if t.dim() and 0 in t.stride() else t.numel() * t.element_size() for t in [out, *inputs])
        row = {"case": name, "dtype": str(out.dtype).removeprefix("torch."), "config": run.config, "bytes": moved}
        row.update({provider: summary(times, moved) for provider, times in samples.items()})
        best = min(row[p]["median_us"] for p in ("torch", "triton") if p in row)
        row["kiln_speed_over_best_peer"] = best / row["kiln"]["median_us"]
        rows.append(row)
        print(
            f"{name:55} {row['dtype']:9} " + "  ".join(f"{p} {row[p]['gb_s']:.0f}" for p in samples) + f"  x{row['kiln_speed_over_best_peer']:.3f}  [{run.config}]",
            file=sys.stderr,
        )
    json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
