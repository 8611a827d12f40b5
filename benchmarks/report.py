"""A benchmark's result in sections, one of which may fail without the others."""

import contextlib
import sys
import time

import torch


def say(text):
    print(text, file=sys.stderr, flush=True)


class Report:
    """Sections of the result; one that throws leaves its error."""

    def __init__(self):
        self.sections, self.failed, self.started = {}, False, time.monotonic()

    @contextlib.contextmanager
    def section(self, name):
        rows = self.sections[name] = []
        try:
            yield rows
        except (RuntimeError, AssertionError, torch.cuda.CudaError) as error:
            rows.append({"failed": str(error)})
            self.failed = True
            say(f"{name}: FAILED: {error}")
        say(f"{name}: done at {time.monotonic() - self.started:.1f} s")
