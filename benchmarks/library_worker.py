"""A library in a process of its own, which makes the calls that it is asked for, times them and judges results; and the handle by which its parent asks.

The parent asks one worker at a time, call by call: a machine's speed drifts within seconds, so both libraries' times of a call are to lie next to each other. In one process
the threads of two libraries would wait for work on the same cores; in two they do so for some milliseconds after a call, so `Worker.rest` waits until they do not.
"""

import contextlib
import math
import multiprocessing
import os
import pathlib
import signal
import time

WARM_S = 3e-3  # of calls before the first sample of a turn: threads wake, caches fill
FEWEST_SAMPLES, MOST_SAMPLES = 2, 12  # of a turn
BATCH_S = 0.5e-3  # of calls between two looks at the clock, at least


def samples_us(run, budget_s):
    """Microseconds of a call, after warm calls; each sample is the mean of a batch."""
    clock = time.perf_counter
    calls, started = 0, clock()
    while calls == 0 or clock() - started < WARM_S:
        run()
        calls += 1
    call_s = (clock() - started) / calls
    count = int(min(MOST_SAMPLES, max(FEWEST_SAMPLES, budget_s / call_s)))
    batch = range(math.ceil(BATCH_S / call_s))
    samples = []
    for _ in range(count):
        started = clock()
        for _ in batch:
            run()
        samples.append((clock() - started) / len(batch) * 1e6)
    return samples


class LibraryService:
    """What a worker does when it is asked: the call at hand, its arrays and results."""

    def __init__(self, kind):
        from call_arrays import CallArrays
        from call_library import LIBRARIES

        self.library, self.arrays = LIBRARIES[kind](), CallArrays()

    def versions(self):
        return self.library.versions()

    def prepare(self, call):
        """Makes the inputs, and the call for the first time; milliseconds of that."""
        from call_arrays import out_of

        self.run = self.result = None  # their memory goes before more is taken
        self.call, self.inputs, self.out = call, self.arrays.inputs(call), out_of(call)
        self.run = self.library.operation(call, self.inputs, self.out)
        started = time.perf_counter()
        self.result = self.run()
        return (time.perf_counter() - started) * 1e3

    def measure(self, budget_s):
        return samples_us(self.run, budget_s)

    def save(self, path):
        """Keeps the result for another worker."""
        import numpy

        numpy.save(path, self.result)

    def judge(self, path):
        """The errors of the result in a file and of this library's own, in tolerances."""
        import numpy
        from call_arrays import error_in_tolerances, wide_result

        expected = wide_result(self.call, self.inputs)
        results = numpy.load(path), numpy.asarray(self.result)
        return [error_in_tolerances(self.call, result, expected) for result in results]

    def tune(self, search_s, budget_s):
        """Samples of the call with the config that a search finds, and with the default, which take turns."""
        self.library.tune(self.call, self.inputs, search_s)
        ways = [self.library.operation(self.call, self.inputs, self.out, tuning=way) for way in ("use", "off")]
        samples = [], []
        for place in (0, 1, 1, 0):
            samples[place].extend(samples_us(ways[place], budget_s))
        return samples


def received(connection):
    """None too when the parent is gone."""
    try:
        return connection.recv()
    except EOFError:
        return None


def serve(connection, kind):
    """A worker's process: answers (answer, error) to each (request, arguments) until there is None."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    service = None
    while (request := received(connection)) is not None:
        name, arguments = request
        try:
            service = service or LibraryService(kind)
            connection.send((getattr(service, name)(*arguments), None))
        except Exception as error:  # the parent knows which call it was
            connection.send((None, f"{type(error).__name__}: {error}"))


class WorkerError(Exception):
    """What a worker could not do, in the library's words."""


class Worker:
    """A worker's handle. The process has today's environment with the changes, of which None takes a variable away."""

    def __init__(self, kind, changes):
        before = dict(os.environ)
        try:
            for name, value in changes.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            context = multiprocessing.get_context("spawn")
            self.connection, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs, kind), daemon=True)
            self.process.start()
        finally:
            os.environ.clear()
            os.environ.update(before)
        theirs.close()

    def ask(self, request, *arguments):
        try:
            self.connection.send((request, arguments))
            answer, error = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            raise SystemExit(f"a worker ended with status {self.process.exitcode}, asked to {request}") from None
        if error:
            raise WorkerError(error)
        return answer

    def rest(self, most_s=1.0):
        """Waits until none of the worker's threads runs: a BLAS's wait for more work spinning, on the cores that the other library needs."""
        deadline = time.monotonic() + most_s
        while time.monotonic() < deadline and self.is_running():
            time.sleep(2e-3)

    def told_of_threads(self, file):
        """What the kernel says of each thread in this file of /proc."""
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                yield (task / file).read_text()

    def is_running(self):
        return any(text.rpartition(")")[2].split()[0] == "R" for text in self.told_of_threads("stat"))

    def waited_s(self):
        """Seconds that its threads have waited for a CPU that others had. A BLAS that waits spinning gives way to others for whole time slices: little load is much of its times."""
        return sum(int(text.split()[1]) for text in self.told_of_threads("schedstat")) * 1e-9

    def end(self):
        self.connection.send(None)
        self.process.join()
