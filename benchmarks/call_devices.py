"""What random calls are drawn for, measured on and compared with: the CPU beside NumPy or torch, a GPU beside torch. Libraries are imported when something is measured."""

import contextlib
import os
import pathlib
import platform
import tempfile

import call_draw
import call_report
import gpu_call_draw
import gpu_report
from library_worker import WorkerError


def cpu_name():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


class CpuCalls:
    """Kiln and its peer in processes of their own."""

    peers = {"numpy": "NumPy", "torch": "torch"}
    families, draw, report = call_draw.FAMILIES, staticmethod(call_draw.draw_call), call_report
    about_plot = {"long_us": call_report.LONG_US}

    @contextlib.contextmanager
    def measurement(self, arguments, kept, left):
        """What measures calls; `kept` then knows the run. Raises ValueError or WorkerError."""
        from call_measurement import REGISTERS, Measurement, worker_environment

        run = {"seed": arguments.seed, "threads": arguments.threads, "cpu_features": arguments.cpu_features or "native"}
        peer = self.peers[arguments.peer]
        kept.begin(run if arguments.peer == "numpy" else run | {"peer": peer})
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
        with tempfile.TemporaryDirectory() as folder:
            cache = f"{folder}/cache"
            environment = worker_environment(arguments.threads, arguments.cpu_features, cache, arguments.tuned > 0)
            measurement = Measurement(environment, folder, arguments.peer)
            registers = REGISTERS.get(arguments.cpu_features)
            if registers and measurement.versions["kiln_registers"] != registers:
                raise WorkerError(
                    f"this Kiln compiles for the machine's own processor, not for {arguments.cpu_features}"
                )
            libraries = {**measurement.versions, "peaks": measurement.peaks}
            measurement.about = {"cpu": cpu_name(), "peer": peer, **run, **libraries}
            yield measurement
            measurement.end()

    def title(self, about):
        return f"{about['cpu']}, {about['cpu_features']}, threads: {about['threads']}; seed {about['seed']}"


class KeptRows:
    """In the place of a measurement where nothing is to be measured: what rows say can be told on another machine."""

    def __init__(self, about):
        self.about = about


class GpuCalls:
    """Kiln and torch in this process."""

    peers = {"torch": "torch"}
    families, draw, report = gpu_call_draw.FAMILIES, staticmethod(gpu_call_draw.draw_gpu_call), gpu_report
    about_plot = {"long_us": gpu_report.ROOFLINE_US, "beside": True}

    @contextlib.contextmanager
    def measurement(self, arguments, kept, left):
        """As CpuCalls.measurement. Kernels are compiled anew unless the environment names a cache."""
        if kept.run and (not left or arguments.seconds <= 0):
            yield KeptRows({"peer": "torch", **kept.run})
            return
        with tempfile.TemporaryDirectory() as cache:
            os.environ.setdefault("KILN_CACHE_DIR", cache)
            try:
                from gpu_measurement import GpuMeasurement

                measurement = GpuMeasurement(left)
            except (
                ImportError,
                RuntimeError,
                AssertionError,
            ) as error:  # torch has no GPU, or asserts that it was built for one
                raise WorkerError(f"--device cuda: {' '.join(str(error).split())}") from error
            kept.begin({"seed": arguments.seed, "device": arguments.device, **measurement.versions})
            measurement.about = {"peer": "torch", **kept.run}
            yield measurement

    def title(self, about):
        return f"{about['gpu']}, torch {about['torch']}; seed {about['seed']}"


DEVICES = {"cpu": CpuCalls(), "cuda": GpuCalls()}
