"""Kernels of Triton, compiled in many processes beside what the caller does meanwhile."""

import concurrent.futures
import multiprocessing
import os


class Compilation:
    """Runs functions of no result, each (function, *arguments), in processes of their own: they leave kernels in Triton's cache on disk. Triton holds the interpreter's lock
    while it compiles. What fails fails again, and is reported, where a kernel is used."""

    def __init__(self, calls):
        self.pool, self.tasks = None, []
        if calls:
            self.pool = concurrent.futures.ProcessPoolExecutor(
                min(16, os.cpu_count()), multiprocessing.get_context("spawn")
            )
            self.tasks = [self.pool.submit(*call) for call in calls]

    def wait(self):
        if self.pool:
            concurrent.futures.wait(self.tasks)
            self.pool.shutdown()
