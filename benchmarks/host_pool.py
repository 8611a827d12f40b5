"""Page-locked host memory for benchmarks: large regions, made by all cores at once."""

import concurrent.futures
import mmap
import os

import numpy as np
import torch

PIECE_BYTES = 256 << 20


class HostPool:
    """`tensor`: uint8, page-locked and mapped for the GPU. torch's own pinned memory would round 24 GiB up to 32, and one thread would make its pages."""

    def __init__(self, size_bytes, source=None):
        """With the bytes of `source`, a dense tensor on the GPU, where one is given."""
        self.memory = mmap.mmap(-1, size_bytes)
        self.memory.madvise(mmap.MADV_HUGEPAGE)
        array = np.frombuffer(self.memory, np.uint8)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
            list(
                threads.map(lambda start: array[start : start + PIECE_BYTES].fill(0), range(0, size_bytes, PIECE_BYTES))
            )
        self.tensor = torch.frombuffer(self.memory, dtype=torch.uint8)
        runtime = torch.cuda.cudart()
        torch.cuda.check_error(runtime.cudaHostRegister(self.tensor.data_ptr(), size_bytes, 3))  # portable, mapped
        if source is not None:
            self.tensor.copy_(source.view(torch.uint8).view(-1)[:size_bytes])

    def close(self):
        """The memory stays mapped until the last view of it is gone."""
        torch.cuda.synchronize()
        torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(self.tensor.data_ptr()))
