"""Drawn calls measured: Kiln and its peer in turns, their results judged, and both beside what the machine can do."""

import statistics
import subprocess
import sys
import time

from drawn_call import DrawnInput, drawn_call
from library_worker import Worker, WorkerError
from sample_spread import spread_us

TURN_S = 0.035  # of samples of one library before the other's turn
PEAK_PRODUCT = 1536  # extents of the products that show the peak of arithmetic
PEAK_COPY = 2**24  # elements of the copy that shows the memory's, several times what caches hold
# Processors that both libraries can pretend to be: the name of OpenBLAS's kernels, how groups of instructions that NumPy chooses at run time begin, and the processor lacks, and what torch, oneDNN and MKL are told.
CPU_FEATURES = {"x86-64-v3": ("Haswell", ("X86_V4", "AVX512"), "AVX2")}
TORCH_FEATURES = ("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
REGISTERS = {"x86-64-v3": "ymm"}


def numpy_features_to_disable(lacking):
    """Of the groups that this NumPy uses here. Its variable takes no others: it warns of those that the processor has not, and fails of those that it does not know."""
    text = "from numpy._core import _multiarray_umath as m; print(*(n for n in m.__cpu_dispatch__ if m.__cpu_features__[n]))"
    command = [sys.executable, "-c", text]
    used = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return " ".join(name for name in used if name.startswith(lacking))


def worker_environment(threads, cpu_features, cache, is_tuned):
    """Changes of the environment. A machine may pin OpenBLAS to older kernels, for results that repeat elsewhere: here it is to choose for itself."""
    changes = {
        name: str(threads)
        for name in ("KILN_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    }
    changes |= dict.fromkeys((*TORCH_FEATURES, "ATEN_CPU_CAPABILITY"))
    changes |= {"OPENBLAS_CORETYPE": None, "OPENBLAS_L2_SIZE": None, "NPY_DISABLE_CPU_FEATURES": None}
    changes |= {"KILN_CACHE_DIR": cache, "KILN_CPU_FEATURES": None, "KILN_TUNING": "use" if is_tuned else "off"}
    if cpu_features:
        coretype, lacking, isa = CPU_FEATURES[cpu_features]
        changes |= {**dict.fromkeys(TORCH_FEATURES, isa), "ATEN_CPU_CAPABILITY": isa.lower()}
        changes |= {"KILN_CPU_FEATURES": cpu_features, "OPENBLAS_CORETYPE": coretype}
        changes |= {"NPY_DISABLE_CPU_FEATURES": numpy_features_to_disable(lacking)}
    return changes


class Measurement:
    """Kiln's worker and its peer's, and `peaks`: {"gflops": {dtype: best}, "gb_s": best}. Raises WorkerError where a library cannot be had."""

    is_lost = False

    def __init__(self, environment, folder, peer="numpy"):
        # Kiln's process has NumPy too, for its arrays: no threads of that one.
        self.kiln, self.peer = Worker("kiln", environment | {"OPENBLAS_NUM_THREADS": "1"}), Worker(peer, environment)
        self.result_path = f"{folder}/result.npy"
        self.versions = self.kiln.ask("versions") | self.peer.ask("versions")
        self.peaks = self.measured_peaks()

    def prepare(self, call):
        """Nothing is to be done before a call's row."""

    def turns(self, call):
        """Microseconds of Kiln and of the peer, who take turns as A, B, B, A: a steady drift of the machine counts for neither. Who begins alternates."""
        kiln, peer = (self.kiln, []), (self.peer, [])
        first, second = (kiln, peer) if call.index % 2 else (peer, kiln)
        for (worker, samples), (other, _) in zip((first, second, second, first), (second, first, first, second)):
            other.rest()
            samples += worker.ask("measure", TURN_S)
        return kiln[1], peer[1]

    def waited_s(self):
        return self.kiln.waited_s() + self.peer.waited_s()

    def measured_peaks(self):
        """Of the better library's products of large matrices, and copy."""
        square = (PEAK_PRODUCT, PEAK_PRODUCT)
        flops = 2.0 * PEAK_PRODUCT**3
        calls = {
            dtype: drawn_call("matmul", [DrawnInput(square, dtype)] * 2, square, flops=flops)
            for dtype in ("f32", "f64")
        }
        calls["copy"] = drawn_call("copy", [DrawnInput((PEAK_COPY,), "f32")], (PEAK_COPY,))
        best_us = {}
        for name, call in calls.items():
            for worker in (self.kiln, self.peer):
                worker.ask("prepare", call)
            best_us[name] = min(map(min, self.turns(call)))
        gb_s = calls["copy"].touched_bytes / best_us.pop("copy") * 1e-3
        return {"gflops": {dtype: flops / us * 1e-3 for dtype, us in best_us.items()}, "gb_s": gb_s}

    def roof_us(self, call):
        """What the call's arithmetic takes at the peak (of f32, where it is of integers), or its memory. A call whose data fits the caches may be faster."""
        gflops = self.peaks["gflops"].get(call.dtype, self.peaks["gflops"]["f32"])
        return max(call.flops / gflops, call.touched_bytes / self.peaks["gb_s"]) * 1e-3

    def row(self, call, search_s=None):
        """The row of a call; one that a library refuses has "failed" and no "speed". `search_s`: tune it too, for so long."""
        row = {"family": call.family, "index": call.index, "kind": call.kind, "op": call.op, "call": str(call)}
        row |= {"dtype": call.dtype, "bytes": call.touched_bytes, "flops": call.flops}
        try:
            row["cold_ms"] = self.kiln.ask("prepare", call)
            self.peer.ask("prepare", call)
            self.kiln.ask("save", self.result_path)
            row["error"], row["peer_error"] = self.peer.ask("judge", self.result_path)
            started, waited_s = time.monotonic(), self.waited_s()
            kiln, peer = self.turns(call)
            row["waited_share"] = max(0.0, self.waited_s() - waited_s) / (time.monotonic() - started)
            kiln_us, peer_us = statistics.median(kiln), statistics.median(peer)
            measured = {
                "samples": len(kiln),
                "kiln": spread_us(kiln),
                "peer": spread_us(peer),
                "speed": peer_us / kiln_us,
            }
            roof_us = self.roof_us(call)
            measured |= {"kiln_of_roof": roof_us / kiln_us, "peer_of_roof": roof_us / peer_us}
            if search_s:
                tuned, default = map(spread_us, self.kiln.ask("tune", search_s, TURN_S))
                measured |= {"tuned": tuned, "tuning_gain": default["median_us"] / tuned["median_us"]}
            return row | measured
        except WorkerError as error:
            return row | {"failed": str(error)}

    def end(self):
        self.kiln.end()
        self.peer.end()
