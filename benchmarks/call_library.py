"""Libraries that run drawn calls. Each is imported in the process that uses it alone: a library's threads, and the environment that it reads, are that process's.

A library has versions(), a dict, and operation(call, inputs, out), a function without arguments that makes the call over NumPy arrays and returns when it is done.
One of a GPU would copy inputs and `out` to the device in operation(), and wait for the device in what it returns; benchmarks/gpu_*.py time calls there without that wait.
"""

import contextlib
import ctypes
import os
import pathlib
import re


class NumpyLibrary:
    """NumPy, which spreads products over the threads of its BLAS and runs everything else on one."""

    def __init__(self):
        import numpy

        self.numpy = numpy

    def versions(self):
        compiled = self.numpy._core._multiarray_umath
        used = [name for name in compiled.__cpu_dispatch__ if compiled.__cpu_features__.get(name)]
        return {"numpy": self.numpy.__version__, "numpy_features": " ".join(used), "blas": self.blas()}

    def blas(self):
        """Its name and version, and what the loaded library says of the kernels that it chose."""
        blas = self.numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        loaded = {line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines()}
        for path in sorted(path for path in loaded if "openblas" in path):
            with contextlib.suppress(OSError, AttributeError):
                corename = ctypes.CDLL(path).scipy_openblas_get_corename64_
                corename.restype = ctypes.c_char_p
                return f"{blas['name']} {blas['version']} ({corename().decode()} kernels)"
        return f"{blas['name']} {blas['version']}"

    def operation(self, call, inputs, out):
        from numpy_call import numpy_call

        return numpy_call(call.op, inputs, call.attributes, out)


class KilnLibrary:
    """Kiln as a user calls it: kiln.ops.<op>(x, ..., out=out), by name and warm after the first call."""

    def __init__(self):
        import kiln

        self.kiln = kiln

    def versions(self):
        return {"kiln": self.kiln.__version__, "kiln_registers": self.registers()}

    def registers(self):
        """The widest that an addition of many elements is compiled to use: zmm, ymm or xmm."""
        meta = self.kiln.TensorMeta("f32", (4096,))
        assembly = self.kiln.inspect("add", meta, meta, emit="asm", device="cpu")
        return next((name for name in ("zmm", "ymm", "xmm") if re.search(rf"\b{name}\d", str(assembly))), "none")

    def operation(self, call, inputs, out, **options):
        """The call spelled out, as in a program: functools.partial would add a quarter of a microsecond."""
        names = [f"x{place}" for place in range(len(inputs))]
        keywords = [f"{name}={value!r}" for name, value in (call.attributes | options).items()]
        given = ", ".join([*names, *keywords, *(["out=out"] if call.takes_out else [])])
        return eval(f"lambda op, out, {', '.join(names)}: lambda: op({given})")(
            getattr(self.kiln.ops, call.op), out, *inputs
        )

    def tune(self, call, inputs, budget_s):
        self.kiln.autotune(call.op, *inputs, budget_s=budget_s, progress=False, **call.attributes)


class TorchLibrary:
    """torch on the CPU, whose products are oneDNN's and MKL's."""

    def __init__(self):
        try:
            import torch
        except ImportError as error:
            raise ImportError("this Python has no torch: pip install torch, or compare with numpy") from error
        self.torch = torch
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def versions(self):
        blas = re.search(r"MKL-DNN v[\d.]+", self.torch.__config__.show())
        capability = self.torch.backends.cpu.get_cpu_capability()
        return {"torch": self.torch.__version__, "torch_cpu": capability, "blas": blas.group() if blas else "none"}

    def operation(self, call, inputs, out):
        from torch_call import torch_calls

        inputs = [self.torch.from_numpy(array) for array in inputs]
        return torch_calls(call.op, inputs, call.attributes, None if out is None else self.torch.from_numpy(out))[
            "torch"
        ]


LIBRARIES = {"kiln": KilnLibrary, "numpy": NumpyLibrary, "torch": TorchLibrary}
