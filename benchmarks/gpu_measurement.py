"""Drawn calls measured on a GPU: Kiln, tuned too where that is asked for, and torch in one process, in random turns, their results judged, beside what the GPU can do."""

import concurrent.futures
import os
import statistics
import time

import kiln
import torch
from call_sectors import SECTOR_BYTES, call_sectors
from drawn_call import ITEM_BYTES
from gpu_call_draw import PRODUCT_TFLOPS
from gpu_timing import measure
from sample_spread import spread_us
from torch_arrays import PRODUCTS, GuardedResult, PlacedArrays, error_in_tolerances, exact_result, inputs_of
from torch_call import torch_calls

MOST_COMPILERS = 16
COMPILED_AT_ONCE = 96  # calls; a run that ends early has compiled few in vain
FLUSH_BYTES = 256 << 20
FEWEST_SAMPLES, MOST_SAMPLES = 15, 60
SAMPLES_US = 120_000  # of one provider, with what it waits for
SAMPLE_OVERHEAD_US = 200
MOST_RESERVED_BYTES = 16 << 30  # by torch's allocator between calls: Kiln has its own
# What a call takes at best: a launch, and sectors at the rate of a copy of an H200; or its products.
LAUNCH_US, MEMORY_BYTES_US = 3.0, 4.3e6


def roof_us(call):
    products_us = call.flops / (PRODUCT_TFLOPS[call.precision] * 1e6) if call.op in PRODUCTS else 0.0
    return max(LAUNCH_US + call_sectors(call) * SECTOR_BYTES / MEMORY_BYTES_US, products_us)


def text_of_config(report):
    return " ".join(f"{name}={value}" for name, value in report.config.items())


def described(drawn, tensor):
    """Dtype, shape, strides and how far its first element is from an aligned address."""
    place = tensor.storage_offset() * ITEM_BYTES[drawn.dtype]
    return f"{drawn.dtype} {tuple(tensor.shape)} strides {tensor.stride()} at {place} bytes"


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"


class GpuMeasurement:
    """Measures calls of a list, of which it compiles the next ones ahead of the first that needs it."""

    def __init__(self, calls, device="cuda"):
        self.calls, self.device, self.compiled_to = calls, device, 0
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        name = torch.cuda.get_device_name() if device == "cuda" else device
        self.versions = {"gpu": name, "torch": torch.__version__, "kiln": kiln.__version__}
        self.is_lost = False  # after a fault of the GPU, which ends all that this process can do there

    def resolve(self, call, inputs, out, tuning="off"):
        return kiln.resolve(call.op, *inputs, out=out, tuning=tuning, **call.attributes)

    def compile_ahead(self, place):
        """Compiles the next calls from this place on, on all CPUs, and says how long that took."""
        chunk = self.calls[place : place + COMPILED_AT_ONCE]
        self.compiled_to, started = place + len(chunk), time.monotonic()
        arrays, compilers = PlacedArrays(chunk, self.device), min(MOST_COMPILERS, len(os.sched_getaffinity(0)))

        def attempt(call):
            inputs, out = arrays.of(call)
            try:
                self.resolve(call, inputs, out)
            except kiln.Error:
                pass  # the call's own row says so

        with concurrent.futures.ThreadPoolExecutor(compilers) as pool:
            list(pool.map(attempt, chunk))
        return len(chunk), time.monotonic() - started

    def prepare(self, call):
        """What is to be told of compiling before this call is measured, if there was any."""
        place = self.calls.index(call, max(0, self.compiled_to - COMPILED_AT_ONCE))
        if place < self.compiled_to:
            return None
        return "{} calls compiled in {:.1f} s".format(*self.compile_ahead(place))

    def samples_of(self, providers):
        """Microseconds by provider; fewer samples of long calls."""
        first = measure(providers, 3, self.flush)
        longest_us = max(map(statistics.median, first.values()))
        samples = int(SAMPLES_US / (longest_us + SAMPLE_OVERHEAD_US))
        return measure(providers, min(MOST_SAMPLES, max(FEWEST_SAMPLES, samples)), self.flush)

    def judged(self, call, inputs, result, run, ways):
        """Kiln's error, and those of torch's ways that take the call, by name."""
        expected = exact_result(call, inputs)
        result.reset()
        run()
        error = error_in_tolerances(call, inputs, result.out, expected)
        if not result.is_guarded():
            raise RuntimeError("memory beside the result was written")
        errors, refused = {}, {}
        for name, way in ways.items():
            result.reset()
            try:
                errors[name] = error_in_tolerances(call, inputs, way(), expected)
            except (RuntimeError, NotImplementedError) as problem:
                refused[name] = one_line(problem)
        if not errors:
            raise RuntimeError(f"torch takes no such call: {refused}")
        return error, errors

    def tuned(self, call, inputs, out, budget_s):
        """The tuned call and how long the search took; None instead where the default stayed."""
        table = kiln.autotune(call.op, *inputs, budget_s=budget_s, progress=False, **call.attributes)
        stayed = table.chosen is table.default
        return None if stayed else self.resolve(call, inputs, out, "use"), table.elapsed_s

    def measured(self, call, search_s):
        inputs, result = inputs_of(call, self.device), GuardedResult(call, self.device)
        out = result.out
        torch.backends.cuda.matmul.allow_tf32 = call.precision == "tf32"
        default, ways = self.resolve(call, inputs, out), torch_calls(call.op, inputs, call.attributes, out)
        report = default.report
        row = {"inputs": [described(*pair) for pair in zip(call.inputs, inputs)], "variant": report.variant}
        row |= {"config": text_of_config(report), "kernels": len(report.kernels)}

        def run():
            default(*inputs, out=out)

        row["error"], errors = self.judged(call, inputs, result, run, ways)
        providers = {"kiln": run} | {name: ways[name] for name in errors}
        tuned = None
        if search_s:
            try:
                tuned, row["tuning_s"] = self.tuned(call, inputs, out, search_s)
                row["tuned_config"] = text_of_config(tuned.report) if tuned else row["config"]
            except kiln.Error as error:
                row["tuning_failed"] = one_line(error)
        if tuned:
            providers["tuned"] = lambda: tuned(*inputs, out=out)
        times = self.samples_of(providers)
        medians = {name: statistics.median(samples) for name, samples in times.items()}
        peer = min(errors, key=medians.get)
        row |= {"peer_way": peer, "peer_error": errors[peer], "samples": len(times["kiln"])}
        row |= {"kiln": spread_us(times["kiln"]), "peer": spread_us(times[peer]), "roof_us": roof_us(call)}
        row["speed"] = medians[peer] / medians["kiln"]
        row |= {f"{side}_of_roof": row["roof_us"] / row[side]["median_us"] for side in ("kiln", "peer")}
        if "tuned_config" in row:
            row["tuned"] = spread_us(times["tuned"]) if tuned else row["kiln"]
            row["tuning_gain"] = medians["kiln"] / medians.get("tuned", medians["kiln"])
        return row

    def row(self, call, search_s=None):
        """The row of a call; one that a library refuses has "failed" and no "speed". `search_s`: tune it too, for so long."""
        row = {"family": call.family, "index": call.index, "kind": call.kind, "op": call.op, "call": str(call)}
        row |= {"dtype": call.precision, "attributes": call.attributes, "flops": call.flops}
        row["bytes"] = call.touched_bytes
        try:
            return row | self.measured(call, search_s)
        except Exception as error:  # whatever it is, the other calls still count
            return row | {"failed": one_line(error)}
        finally:
            self.check_device()

    def check_device(self):
        try:
            if self.device == "cuda":
                torch.cuda.synchronize()
                if torch.cuda.memory_reserved() > MOST_RESERVED_BYTES:
                    torch.cuda.empty_cache()
        except RuntimeError:
            self.is_lost = True

    def end(self):
        pass
