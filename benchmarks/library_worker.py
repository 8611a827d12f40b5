"""A library in a process of its own, which makes the calls that it is asked for, times them and judges results; and the handle by which its parent asks.

The parent asks one worker at a time, call by call: a machine's speed drifts within seconds, so the two libraries' times of a call lie next to each other. In one process the threads of two libraries would wait for
work on the same cores; in two they do as well, for some milliseconds after a call, so `Worker.rest` waits until no thread of the worker runs.
"""

import contextlib
import math
import multiprocessing
import os
import pathlib
import time

BATCH_S = 50e-6  # of calls between two looks at the clock
WARM_S = 3e-3  # of calls before the first sample of a turn: threads wake, caches fill
SAMPLES = 4  # of a turn, at most
POOL = 1_048_573  # random values are drawn once and repeated; a prime, so that rows differ
SEED = 7
# How far a result may be from the f64 one, for inputs around 1: relative, and absolute as a multiple of the root of how many values went into it. In f32; f64's is 2^-28 of that.
TOLERANCES = {"matmul": (1e-6, 2**-17), "linear": (1e-6, 2**-17), "cumsum": (1e-5, 2**-14), "sum": (1e-5, 2**-17)}
TOLERANCE = (2e-5, 2e-6)


class Arrays:
    """The inputs of calls, alike in all workers."""

    def __init__(self):
        import numpy as np
        from numpy_call import DTYPES

        random = np.random.default_rng(SEED)
        normal = random.standard_normal(POOL)
        self.pools = {
            "normal": normal,
            "positive": np.exp2(random.uniform(-1, 1, POOL)),
            "bool": normal > 0,
            "index": random.random(POOL),
        }
        self.np, self.dtypes = np, DTYPES

    def dense(self, drawn, shape, shift):
        values = self.np.resize(self.np.roll(self.pools[drawn.values], shift), math.prod(shape)).reshape(shape)
        if drawn.values == "index":
            values = values * drawn.bound
        elif drawn.dtype.startswith("i"):  # integers of -300 to 300, or of 25 to 100
            values = self.np.rint(values * (60 if drawn.values == "normal" else 50))
        return values.astype(self.dtypes[drawn.dtype])

    def make(self, drawn, shift):
        *outer, last = drawn.shape
        if drawn.layout == "transposed":
            return self.np.swapaxes(self.dense(drawn, (*outer[:-1], last, outer[-1]), shift), -2, -1)
        if drawn.layout == "padded":
            return self.dense(drawn, (*outer, last + 8), shift)[..., :last]
        if drawn.layout == "every second":
            return self.dense(drawn, (*outer, 2 * last), shift)[..., ::2]
        return self.dense(drawn, drawn.shape, shift)

    def inputs(self, call):
        return [self.make(drawn, (call.seed + 7919 * place) % POOL) for place, drawn in enumerate(call.inputs)]

    def out(self, call):
        return self.np.zeros(call.out_shape, self.dtypes[call.out_dtype]) if call.takes_out else None


class NumpyLibrary:
    """The peer on the CPU."""

    def __init__(self):
        import numpy as np

        self.np = np

    def versions(self):
        features = self.np._core._multiarray_umath
        active = [name for name in features.__cpu_dispatch__ if features.__cpu_features__.get(name)]
        return {"numpy": self.np.__version__, "numpy_features": " ".join(active), "blas": self.blas()}

    def blas(self):
        """As the library that NumPy has loaded names itself and its kernels."""
        import ctypes

        built = self.np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        loaded = {
            line.split()[-1] for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "blas" in line
        }
        for path in sorted(loaded):
            with contextlib.suppress(OSError, AttributeError):
                corename = ctypes.CDLL(path).scipy_openblas_get_corename64_
                corename.restype = ctypes.c_char_p
                return f"{built['name']} {built['version']} ({corename().decode()} kernels)"
        return f"{built['name']} {built['version']}"

    def operation(self, call, inputs, out):
        from numpy_call import numpy_call

        return numpy_call(call.op, inputs, call.attributes, out)


class KilnLibrary:
    """Kiln as a user calls it, kiln.ops.<op>(..., out=out), warm after the first call."""

    def __init__(self):
        import kiln

        self.kiln = kiln

    def versions(self):
        return {"kiln": self.kiln.__version__}

    def operation(self, call, inputs, out, **options):
        """The call spelled out: functools.partial adds a quarter of a microsecond."""
        names = {f"x{place}": array for place, array in enumerate(inputs)}
        keywords = {**call.attributes, **options}
        arguments = [
            *names,
            *(f"{name}={value!r}" for name, value in keywords.items()),
            *(["out=out"] if call.takes_out else []),
        ]
        text = f"lambda op, out, {', '.join(names)}: lambda: op({', '.join(arguments)})"
        return eval(text)(getattr(self.kiln.ops, call.op), out, *inputs)

    def tune(self, call, inputs, budget_s):
        table = self.kiln.autotune(call.op, *inputs, budget_s=budget_s, progress=False, **call.attributes)
        return str(table.best) if hasattr(table, "best") else ""


LIBRARIES = {"kiln": KilnLibrary, "numpy": NumpyLibrary}


def samples_us(run, budget_s):
    """Microseconds of a call, after warm calls: at most SAMPLES of them, fewer where a call is long."""
    clock = time.perf_counter
    calls, started = 0, clock()
    while calls == 0 or clock() - started < WARM_S:
        run()
        calls += 1
    call_s = (clock() - started) / calls
    batch = max(1, math.ceil(BATCH_S / call_s))
    samples = []
    for _ in range(int(min(SAMPLES, max(2, budget_s / (batch * call_s))))):
        started = clock()
        for _ in range(batch):
            run()
        samples.append((clock() - started) / batch * 1e6)
    return samples


def tolerance(call):
    relative, absolute = TOLERANCES.get(call.op, TOLERANCE)
    if call.op in ("matmul", "linear"):
        absolute *= math.sqrt(call.inputs[0].shape[-1])
    elif call.op in ("sum", "cumsum"):
        shape, dim = call.inputs[0].shape, call.attributes["dim"]
        absolute *= math.sqrt(math.prod(shape) if dim is None else shape[dim])
    dtypes = (call.dtype, call.out_dtype)
    scale = 1 if "f32" in dtypes else 2**-28 if "f64" in dtypes else 0
    return relative * scale, absolute * scale


class Served:
    """What a worker does between two requests: the call at hand, its arrays and results."""

    def __init__(self, kind):
        self.library, self.arrays = LIBRARIES[kind](), Arrays()

    def prepare(self, call):
        """Makes the inputs, and the first call; milliseconds of that."""
        self.call, self.inputs, self.out = call, self.arrays.inputs(call), self.arrays.out(call)
        self.run = self.library.operation(call, self.inputs, self.out)
        started = time.perf_counter()
        self.result = self.run()
        return (time.perf_counter() - started) * 1e3

    def measure(self, budget_s):
        return samples_us(self.run, budget_s)

    def save(self, path):
        self.arrays.np.save(path, self.result)

    def judge(self, path):
        """How far the result in a file and this library's own are from one in f64, in tolerances: up to 1 is right. None: not of the shape and dtype."""
        np = self.arrays.np
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in self.inputs]
        dtype = (
            np.float64
            if np.dtype(self.arrays.dtypes[self.call.out_dtype]).kind == "f"
            else self.arrays.dtypes[self.call.out_dtype]
        )
        out = np.zeros(self.call.out_shape, dtype) if self.call.takes_out else None
        expected = np.asarray(self.library.operation(self.call, wide, out)())
        relative, absolute = tolerance(self.call)
        errors = []
        for result in (np.load(path), np.asarray(self.result)):
            if result.shape != expected.shape or result.dtype != np.asarray(self.result).dtype:
                errors.append(None)
            elif expected.dtype == bool or not absolute:
                errors.append(0.0 if np.array_equal(result, expected) else None)
            else:
                distance = np.abs(result - expected) / (absolute + relative * np.abs(expected))
                errors.append(float(distance.max()) if distance.size else 0.0)
        return errors

    def tune(self, budget_s, turn_s):
        """[tuned, default]: samples of the call with what a search found and with the default, in turns."""
        self.library.tune(self.call, self.inputs, budget_s)
        ways = [self.library.operation(self.call, self.inputs, self.out, tuning=way) for way in ("use", "off")]
        samples = [[], []]
        for place in (0, 1, 1, 0):
            samples[place] += samples_us(ways[place], turn_s)
        return samples

    def versions(self):
        return self.library.versions()


def serve(connection, kind):
    """A worker's process: answers [result, error] to each [request, arguments] until there is None."""
    served = None
    while (request := connection.recv()) is not None:
        name, arguments = request
        try:
            served = served or Served(kind)
            connection.send((getattr(served, name)(*arguments), None))
        except Exception as error:  # the parent names the call that it was
            connection.send((None, f"{type(error).__name__}: {error}"))


class WorkerError(Exception):
    """What a worker could not do; the message is the library's."""


class Worker:
    """The handle of a worker. Its process has the environment of now, with `environment` on top (None takes a variable away)."""

    def __init__(self, kind, environment):
        before = dict(os.environ)
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        try:
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs, kind), daemon=True)
            self.process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        theirs.close()

    def ask(self, request, *arguments):
        self.connection.send((request, arguments))
        try:
            answer, error = self.connection.recv()
        except EOFError:
            self.process.join()
            raise SystemExit(f"a worker ended with status {self.process.exitcode} when asked to {request}") from None
        if error:
            raise WorkerError(error)
        return answer

    def rest(self, most_s=1.0):
        """Waits until no thread of the worker runs: a BLAS's wait for more work spinning, on the cores that the other library needs."""
        deadline = time.monotonic() + most_s
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        while time.monotonic() < deadline:
            states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
            if "R" not in states:
                return
            time.sleep(0.002)

    def end(self):
        self.connection.send(None)
        self.process.join()
