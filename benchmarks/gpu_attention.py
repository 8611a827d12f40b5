#!/usr/bin/env python3
"""Kiln's ops of attention beside torch's backends and FlashAttention-3 on a GPU. Prints a JSON object: rows by section.

    benchmarks/gpu_attention.py build [--only prefill,decode,latent,drawn] [--seed 1 --draws 100] [--fa3 _vllm_fa3_C.abi3.so] [--budget 8]

Rows are as those of benchmarks/gpu_language.py. Kiln's configs are the defaults; with a budget "kiln tuned" stands beside them. Without FlashAttention-3 nobody stands beside decoding.
"""

import argparse
import pathlib
import statistics
import time

import case_run

SECTIONS = ("prefill", "decode", "latent", "drawn")
NUM_WORST = 20


def parser():
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("build", type=pathlib.Path, help="the build directory")
    made.add_argument(
        "--only",
        type=lambda text: case_run.sections_of(text, SECTIONS),
        default=list(SECTIONS),
        help="comma-separated, of " + ", ".join(SECTIONS),
    )
    made.add_argument(
        "--budget", type=case_run.positive(float), default=0.0, help="seconds of tuning for each shape, none by default"
    )
    made.add_argument(
        "--samples", type=case_run.positive(int), default=20, help="of each case; short ones get four times as many"
    )
    made.add_argument("--seed", type=int, default=20261126, help="of the shapes in the section drawn")
    made.add_argument(
        "--draws", type=case_run.positive(int), default=100, help="shapes that are drawn, a third of them of decoding"
    )
    made.add_argument(
        "--limit", type=case_run.positive(float), default=480.0, help="seconds after which no case is begun"
    )
    made.add_argument(
        "--fa3", type=pathlib.Path, help="the library of FlashAttention-3: see benchmarks/fa3_attention.py"
    )
    return made


def speeds_of(rows):
    """Of drawn shapes: the geometric mean of speeds over the best of all peers, for whole sequences and for decoding."""
    kinds = {"prefill": [], "decode": []}
    for row in rows:
        if library := row.get("over", {}).get("library"):
            kinds["decode" if "page" in row else "prefill"].append(library["speed"])
    return {name: statistics.geometric_mean(speeds) for name, speeds in kinds.items() if speeds}


def main():
    arguments = parser().parse_args()
    case_run.find_package(parser(), arguments.build.resolve())
    case_run.find_gpu(parser(), "")
    import attention_cases
    import torch
    from fa3_attention import FlashAttention3
    from language_case import Effort

    started = time.monotonic()
    torch.manual_seed(arguments.seed)
    fa3 = FlashAttention3(arguments.fa3) if arguments.fa3 else None
    how = fa3, arguments.budget > 0
    cases = {
        "prefill": lambda: attention_cases.prefill_cases(*how),
        "decode": lambda: attention_cases.decode_cases(*how),
        "latent": attention_cases.latent_cases,
        "drawn": lambda: attention_cases.drawn_cases(arguments.seed, arguments.draws, *how),
    }
    effort = Effort(arguments.budget, arguments.samples, torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
    result = {"seed": arguments.seed, "budget_s": arguments.budget}
    for section in arguments.only:
        rows = case_run.section_rows(section, cases[section](), effort, None, started + arguments.limit)
        result[section] = rows
    if "drawn" in result:
        result["drawn_speed"] = speeds_of(result["drawn"])
        result["drawn_worst"] = case_run.worst_drawn(result["drawn"], NUM_WORST)
    case_run.report(result, started)


if __name__ == "__main__":
    main()
