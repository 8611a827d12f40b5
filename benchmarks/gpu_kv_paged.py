"""Paged KV caches on a GPU: gathering pages into a padded batch, appending tokens, and moving blocks between host and device.

Prints a JSON list. Kiln stands beside torch's ways (index_select and a copy; index_copy_; loops of slice copies), and beside a plain copy of the same bytes.
Every result is compared with torch's bit by bit.
"""

import argparse
import sys
import time

import result_file
import torch
from gpu_timing import measure, summary
from kiln_library import Kiln

BATCH, TOKENS, PAGE, HEADS, WIDTH = 64, 4096, 16, 8, 128
LATENT_WIDTH = 576  # of the one head that a model with latent attention keeps
LAYERS, REQUESTS = 12, 16
SWAP_BYTES = 64 << 20


def rows_of(shape):
    return torch.randn(shape, device="cuda").to(torch.bfloat16)


def cache_shape(blocks, layout, page=PAGE, heads=HEADS, width=WIDTH):
    return (blocks, page, heads, width) if layout == "NHD" else (blocks, heads, page, width)


def same_bits(got, wanted):
    if not torch.equal(got.contiguous().view(torch.uint8), wanted.contiguous().view(torch.uint8)):
        raise AssertionError("the result differs from torch's")


def device_copy(size_bytes):
    """A copy that reads half of `size_bytes` and writes the other half."""
    source = torch.empty(size_bytes // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def steady_us(run, repeats):
    """Microseconds of one call among calls back to back, with the host's part."""
    run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) * 1e6 / repeats


class Benchmark:
    def __init__(self, library, samples, configs):
        self.kiln = Kiln(library, torch.cuda.current_stream().cuda_stream)
        self.samples, self.configs = samples, configs
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.rows = []

    def add(self, row, unit, values):
        self.rows.append(row)
        numbers = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
        print(f"{row['case']:44} {numbers} {unit}", file=sys.stderr, flush=True)

    def beside_a_copy(self, case, op, outputs, inputs, attributes, torch_call):
        run = self.kiln.resolve(op, outputs, inputs, attributes)
        providers = {"kiln": run, "torch": torch_call, "device copy": device_copy(int(run.bytes) // 512 * 512)}
        for config in self.configs:
            try:
                providers["kiln " + config] = self.kiln.resolve(op, outputs, inputs, attributes, config)
            except RuntimeError as error:
                print(case, config, error, file=sys.stderr)
        row = {"case": case, "op": op, "config": run.config, "bytes": run.bytes, "samples": self.samples}
        row.update(
            {name: summary(times, run.bytes) for name, times in measure(providers, self.samples, self.flush).items()}
        )
        row["kiln_speed_over_device_copy"] = row["device copy"]["median_us"] / row["kiln"]["median_us"]
        row["kiln_speed_over_torch"] = row["torch"]["median_us"] / row["kiln"]["median_us"]
        values = {name: row[name]["gb_s"] for name in providers}
        self.add(row, "GB/s", {**values, "share of a copy": row["kiln_speed_over_device_copy"]})

    def gather(self, layout, lengths, case, page=PAGE, heads=HEADS, width=WIDTH):
        blocks = BATCH * TOKENS // page
        cache = rows_of(cache_shape(blocks, layout, page, heads, width))
        table = torch.randperm(blocks, device="cuda").to(torch.int32).view(BATCH, -1)
        out = torch.empty(BATCH, heads, TOKENS, width, device="cuda", dtype=cache.dtype)
        order = (0, 3, 1, 2, 4) if layout == "NHD" else (0, 2, 1, 3, 4)
        wanted = torch.empty_like(out)
        view = wanted.view(BATCH, heads, TOKENS // page, page, width)
        tail = (torch.arange(TOKENS, device="cuda") >= lengths[:, None])[:, None, :, None]
        has_tail = bool((lengths < TOKENS).any())

        def torch_gather():
            pages = cache.index_select(0, table.view(-1)).view(BATCH, TOKENS // page, *cache.shape[1:])
            view.copy_(pages.permute(order))
            if has_tail:
                wanted.masked_fill_(tail, 0)

        inputs, attributes = [cache, table, lengths], {"max_len": TOKENS, "layout": layout}
        out.fill_(float("nan"))
        self.kiln.resolve("kv_gather_paged", [out], inputs, attributes)()
        torch_gather()
        same_bits(out, wanted)
        self.beside_a_copy(case, "kv_gather_paged", [out], inputs, attributes, torch_gather)

    def append(self, layout):
        tokens = BATCH * TOKENS
        key, value = rows_of((tokens, HEADS, WIDTH)), rows_of((tokens, HEADS, WIDTH))
        shape = cache_shape(tokens // PAGE, layout)
        caches = [torch.zeros(shape, device="cuda", dtype=key.dtype) for _ in range(2)]
        wanted = [torch.zeros_like(cache) for cache in caches]
        # Whole sequences, their pages anywhere.
        pages = torch.randperm(tokens // PAGE, device="cuda")
        slots = (pages[:, None] * PAGE + torch.arange(PAGE, device="cuda")).view(-1)

        def torch_append():
            for cache, rows in zip(wanted, (key, value)):
                if layout == "NHD":
                    cache.view(tokens, HEADS, WIDTH).index_copy_(0, slots, rows)
                else:
                    cache.index_copy_(0, pages, rows.view(-1, PAGE, HEADS, WIDTH).transpose(1, 2))

        inputs = [key, value, *caches, slots]
        self.kiln.resolve("kv_append", [], inputs, {"layout": layout})()
        torch_append()
        for cache, other in zip(caches, wanted):
            same_bits(cache, other)
        self.beside_a_copy(f"append {layout}", "kv_append", [], inputs, {"layout": layout}, torch_append)

    def append_layers(self, tokens_each):
        """One launch for all layers and requests, beside a slice copy for each layer, request, and keys or values."""
        tokens, blocks = REQUESTS * tokens_each, 4096
        key, value = (rows_of((LAYERS, tokens, HEADS, WIDTH)) for _ in range(2))
        caches = [torch.zeros(LAYERS, *cache_shape(blocks, "NHD"), device="cuda", dtype=key.dtype) for _ in range(2)]
        wanted = [torch.zeros_like(cache) for cache in caches]
        tables = [torch.tensor([layer.data_ptr() for layer in cache], device="cuda") for cache in caches]
        # Each request's tokens lie together, from the middle of a page on.
        starts = [request * blocks * PAGE // REQUESTS + 7 for request in range(REQUESTS)]
        slots = torch.cat([torch.arange(start, start + tokens_each) for start in starts]).cuda()

        def slices():
            for cache, rows in zip(wanted, (key, value)):
                for layer in range(LAYERS):
                    flat = cache[layer].view(-1, HEADS, WIDTH)
                    for request, start in enumerate(starts):
                        flat[start : start + tokens_each] = rows[
                            layer, request * tokens_each : (request + 1) * tokens_each
                        ]

        attributes = {"num_blocks": blocks, "page": PAGE}
        run = self.kiln.resolve("kv_append_layers", [], [key, value, *tables, slots], attributes)
        run()
        slices()
        for cache, other in zip(caches, wanted):
            same_bits(cache, other)
        us = {"kiln": steady_us(run, 200), "torch slices": steady_us(slices, 10)}
        on_device = measure(
            {"kiln": run, "device copy": device_copy(int(run.bytes) // 512 * 512)}, self.samples, self.flush
        )
        row = {
            "case": f"append {LAYERS} layers x {REQUESTS} requests x {tokens_each}",
            "op": "kv_append_layers",
            "config": run.config,
            "bytes": run.bytes,
        }
        row.update(
            {
                "steady_us": us,
                "torch_slice_copies": 2 * LAYERS * REQUESTS,
                **{name: summary(times, run.bytes) for name, times in on_device.items()},
            }
        )
        row["kiln_speed_over_torch_slices"] = us["torch slices"] / us["kiln"]
        self.add(
            row,
            "us",
            {
                **us,
                "kiln on the device": row["kiln"]["median_us"],
                "copy on the device": row["device copy"]["median_us"],
            },
        )

    def swap(self, block_bytes):
        blocks = SWAP_BYTES // block_bytes
        device = torch.randint(0, 255, (blocks, block_bytes), dtype=torch.uint8, device="cuda")
        host = torch.empty(blocks, block_bytes, dtype=torch.uint8).pin_memory()
        sources, targets = torch.randperm(blocks), torch.randperm(blocks)
        mapping = torch.stack([sources, targets], 1).cuda()
        pairs = list(zip(sources.tolist(), targets.tolist()))
        row = {"case": f"swap {block_bytes >> 10} KiB blocks", "op": "swap_blocks", "bytes": SWAP_BYTES}
        values = {}
        for direction, dst, src in (("to host", host, device), ("to device", device, host)):
            run = self.kiln.resolve("swap_blocks", [], [dst, src, mapping])

            def torch_copies():
                for source, target in pairs:
                    dst[target].copy_(src[source], non_blocking=True)

            def whole():
                dst.copy_(src, non_blocking=True)

            run()
            torch.cuda.synchronize()
            same_bits(dst[targets.to(dst.device)].cpu(), src[sources.to(src.device)].cpu())
            gb_s = {"kiln": SWAP_BYTES / steady_us(run, 5) / 1e3, "whole copy": SWAP_BYTES / steady_us(whole, 5) / 1e3}
            gb_s["torch copies"] = SWAP_BYTES / steady_us(torch_copies, 1) / 1e3
            row[direction] = {"config": run.config, "gb_s": gb_s}
            values.update({f"{direction}: {name}": speed for name, speed in gb_s.items()})
        self.add(row, "GB/s", values)

    def run(self):
        full = torch.full((BATCH,), TOKENS, dtype=torch.int32, device="cuda")
        ragged = torch.randint(1, TOKENS + 1, (BATCH,), dtype=torch.int32, device="cuda")
        for layout in ("NHD", "HND"):
            self.gather(layout, full, f"gather {layout}")
            self.gather(layout, ragged, f"gather {layout}, lengths 1 to {TOKENS}")
            self.append(layout)
        for page in (1, 64):
            self.gather("NHD", full, f"gather NHD, pages of {page}", page=page)
        self.gather("NHD", full, f"gather 1 head of {LATENT_WIDTH}", heads=1, width=LATENT_WIDTH)
        for tokens_each in (1, 128):
            self.append_layers(tokens_each)
        for kib in (4, 32, 256, 2048):
            self.swap(kib << 10)
        return self.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="path of libkiln_bench.so")
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--configs", nargs="*", default=[], help="also measure these configs of gather and append")
    arguments = parser.parse_args()
    torch.manual_seed(7)
    result_file.emit(Benchmark(arguments.library, arguments.samples, arguments.configs).run())


if __name__ == "__main__":
    main()
