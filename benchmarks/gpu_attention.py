#!/usr/bin/env python3
"""Kiln's ops of attention beside torch's backends and FlashAttention-3 on a GPU. Prints a JSON object: rows by section.

    benchmarks/gpu_attention.py build [--only prefill,decode,latent,drawn,fp8] [--seed 1 --draws 100] [--fa3 _vllm_fa3_C.abi3.so] [--budget 8]

Rows are as those of benchmarks/gpu_language.py. Kiln's configs are the defaults; with a budget "kiln tuned" stands beside them. Without FlashAttention-3 nobody stands beside decoding.
"""

import statistics
import time

import case_run

SECTIONS = ("prefill", "decode", "latent", "drawn", "fp8")
NUM_WORST = 20


def parser():
    return case_run.case_parser(
        __doc__,
        SECTIONS,
        budget_s=0.0,
        budget="seconds of tuning for each shape, none by default",
        samples=20,
        seed=20261126,
        draws=100,
        drawn="shapes that are drawn, a third of them of decoding",
    )


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
        "fp8": attention_cases.fp8_cases,
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
    case_run.end_sections(result, started)


if __name__ == "__main__":
    main()
