"""Which share of some CPUs' time other processes took. A BLAS that waits spinning gives way to them for whole time slices: little of others is much in its times."""

import os
import pathlib

BUSY = (0, 1, 2, 5, 6, 7)  # user, nice, system, irq, softirq, steal: columns of a CPU's line in /proc/stat
OWN = (11, 12)  # user and system: columns behind the name in a process's


class OthersShare:
    """From its construction on, of these CPUs, beside the processes with these ids. Times are whole ticks of 10 ms."""

    def __init__(self, cpus, processes):
        self.cpus, self.processes = {f"cpu{cpu}" for cpu in cpus}, processes
        self.ticks_at_start = self.ticks()

    def ticks(self):
        """All that passed, and what others took."""
        lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines()]
        times = [list(map(int, values[:8])) for name, *values in lines if name in self.cpus]
        own = 0
        for process in self.processes:
            values = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            own += sum(int(values[column]) for column in OWN)
        return sum(map(sum, times)), sum(of_cpu[column] for of_cpu in times for column in BUSY) - own

    def share(self):
        passed, others = (now - start for now, start in zip(self.ticks(), self.ticks_at_start))
        return min(1.0, max(0.0, others / passed)) if passed else 0.0


def usable_cpus():
    return sorted(os.sched_getaffinity(0))
