"""Host cost of a warm call from Python with torch CUDA tensors, beside the C++ dispatch of the same call, torch.add and
a Triton kernel's launch; and what `import kiln` costs. One JSON object on stdout.

    benchmarks/gpu_python.py build                 # the build directory; needs torch, and Triton for its row
    benchmarks/gpu_python.py build --device cpu    # the same with CPU tensors, without Triton

All rows of Python are measured in turns within one process: a sample is the mean of 100 calls of one row, rounds go
through all rows in an order drawn anew, and the device is idle when a sample starts. The C++ rows are those of
benchmarks/host_benchmark, run before and after.
"""

import argparse
import gc
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import result_file
from sample_spread import spread_us

ELEMENTS = 1024  # the device is never what a call waits for
CALLS = 100
ROUNDS = 400
IMPORTS = 20
MOST_ABOVE_DISPATCH_US = 3.0
MOST_IMPORT_MS = 100.0


def summary(samples):
    return {**spread_us(samples), "samples": len(samples)}


def triton_add(x, y, out):
    """A call that launches Triton's usual add kernel."""
    import triton
    import triton.language as tl

    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offsets < n
        tl.store(
            out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask
        )

    n = out.numel()
    grid = (triton.cdiv(n, 1024),)
    return lambda: add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024), triton.__version__


def rows(device):
    """Calls by name, and the versions of what they belong to."""
    import kiln
    import kiln.torch
    import torch

    x, y = torch.randn(ELEMENTS, device=device), torch.randn(ELEMENTS, device=device)
    out = torch.empty_like(x)
    resolved = kiln.resolve("add", x, y, out=out)
    add, dispatch = kiln.ops.add, kiln.dispatch_gpu_op
    calls = {
        "kiln.ops.add out=": lambda: add(x, y, out=out),
        "kiln.dispatch_gpu_op out=": lambda: dispatch("add", x, y, out=out),
        "kiln.resolve'd out=": lambda: resolved(x, y, out=out),
        "kiln.ops.add": lambda: add(x, y),
        "kiln.torch.add": lambda: kiln.torch.add(x, y),
        "torch.add out=": lambda: torch.add(x, y, out=out),
        "torch.add": lambda: torch.add(x, y),
        "empty call": lambda: None,
    }
    versions = {"kiln": kiln.__version__, "torch": torch.__version__, "python": sys.version.split()[0]}
    if device == "cuda":
        stream = torch.cuda.current_stream().cuda_stream
        calls["kiln.ops.add out= stream="] = lambda: add(x, y, out=out, stream=stream)
        try:
            calls["triton launch"], versions["triton"] = triton_add(x, y, out)
        except ImportError as error:
            print(f"no Triton: {error}", file=sys.stderr)
        versions["device"] = torch.cuda.get_device_name()
    for name, call in calls.items():  # compiles, and shows that each does the same
        out.fill_(float("nan"))
        result = call()
        result = out if result is None or "triton" in name else result
        if name != "empty call":
            torch.testing.assert_close(result, x + y, rtol=0, atol=0)
    return calls, versions, torch.cuda.synchronize if device == "cuda" else lambda: None


def measure(calls, synchronize):
    samples = {name: [] for name in calls}
    order = list(calls)
    shuffle = random.Random(7).shuffle
    repeats = range(CALLS)
    clock = time.perf_counter
    gc.collect()
    gc.disable()
    for round_number in range(ROUNDS + 20):
        shuffle(order)
        for name in order:
            call = calls[name]
            started = clock()
            for _ in repeats:
                call()
            taken = clock() - started
            synchronize()
            if round_number >= 20:  # the first rounds warm up
                samples[name].append(taken * 1e6 / CALLS)
    gc.enable()
    return {name: summary(values) for name, values in samples.items()}


def cpp_costs(build, device):
    try:
        run = subprocess.run([build / "bin" / "host_benchmark", "launch", device], capture_output=True, text=True)
    except OSError as error:
        print(f"no C++ rows: {error}", file=sys.stderr)
        return None
    if run.returncode != 0:
        print(f"no C++ rows: {run.stderr}", file=sys.stderr)
        return None
    return json.loads(run.stdout)


def import_cost(package):
    """Milliseconds that `import kiln` adds to a Python process, paired with a process that imports nothing."""
    environment = {**os.environ, "PYTHONPATH": str(package)}

    def wall_ms(program):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        return (time.perf_counter() - started) * 1e3

    pairs = [(wall_ms("pass"), wall_ms("import kiln")) for _ in range(IMPORTS + 2)][2:]
    added = sorted(imported - bare for bare, imported in pairs)
    return {
        "bare_ms": statistics.median(bare for bare, _ in pairs),
        "import_ms": statistics.median(added),
        "p10_ms": added[len(added) // 10],
        "p90_ms": added[len(added) * 9 // 10],
        "samples": len(added),
        "met": statistics.median(added) <= MOST_IMPORT_MS,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    sys.path.insert(0, str(build / "python"))

    result = {"what": f"add f32 of {ELEMENTS} elements, host time per call", "device": arguments.device}
    result["import"] = import_cost(build / "python")
    before = cpp_costs(build, arguments.device)
    calls, versions, synchronize = rows(arguments.device)
    result["versions"] = versions
    result["python"] = measure(calls, synchronize)
    after = cpp_costs(build, arguments.device)
    if before and after:
        result["cpp"] = {"before": before, "after": after}
        median = {row: after[row]["median_us"] for row in ("raw", "resolved", "dispatch_outputs_given")}
        for row in median:
            median[row] = (median[row] + before[row]["median_us"]) / 2
        warm = result["python"]["kiln.ops.add out="]["median_us"]
        result["above_cpp_dispatch_us"] = {
            name: result["python"][name]["median_us"] - median["dispatch_outputs_given"]
            for name in ("kiln.ops.add out=", "kiln.dispatch_gpu_op out=")
        }
        result["above_cpp_resolved_us"] = result["python"]["kiln.resolve'd out="]["median_us"] - median["resolved"]
        result["met"] = warm - median["dispatch_outputs_given"] <= MOST_ABOVE_DISPATCH_US
        for name, row in median.items():
            print(f"C++ {name:28} {row:8.3f} us", file=sys.stderr)
    if "triton launch" in result["python"]:
        result["below_triton"] = all(
            result["python"][name]["p90_us"] < result["python"]["triton launch"]["p10_us"]
            for name in ("kiln.ops.add out=", "kiln.dispatch_gpu_op out=", "kiln.resolve'd out=")
        )
    for name, row in result["python"].items():
        print(f"{name:32} {row['median_us']:8.3f} us  ({row['p10_us']:.3f} to {row['p90_us']:.3f})", file=sys.stderr)
    print(f"import kiln: {result['import']['import_ms']:.1f} ms", file=sys.stderr)
    result_file.emit(result)


if __name__ == "__main__":
    main()
