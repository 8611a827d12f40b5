#!/usr/bin/env python3
"""Users' texts in the tile language (examples/) beside Triton's and the libraries' on a GPU. Prints a JSON object: rows by section.

    benchmarks/gpu_language.py build [--only matmul,attention] [--budget 30] [--fa3 _vllm_fa3_C.abi3.so]

Each text is tuned for each shape by kiln.autotune within the budget, compared with a double-precision result and, bit by bit, with a second run, and timed in turns with its
peers in this process (benchmarks/gpu_timing.py); Triton's kernels are tuned over their lists of configs. `over` is its speed over the best of each group of peers,
`demands` the share of what it is held to. Outputs are poisoned before each comparison. The whole takes about eight minutes: cases that would start after --limit are
left out, and named.
"""

import sys
import time

import case_run

SECTIONS = ("compile", "matmul", "types", "rows", "attention", "paged", "int4", "drawn")
QUICK_BUDGET_S, QUICK_SAMPLES, QUICK_CASES = 2.0, 5, 2
DRAWN_BUDGET_S = 5.0  # of each shape at most
COMPILING_PROCESSES = 7
NUM_WORST = 5


def parser():
    made = case_run.case_parser(
        __doc__,
        SECTIONS,
        budget_s=30.0,
        budget="seconds of tuning for each shape",
        samples=40,
        seed=20261124,
        draws=24,
        drawn="shapes of products, and a third as many of attention",
    )
    made.add_argument("--quick", action="store_true", help="a smoke test: little tuning, two cases of each section")
    return made


def run_cases(chosen, arguments, started):
    """{section: rows}; imports torch and the peers only here, so that the rest runs without them."""
    import language_attention
    import language_draw
    import language_products
    import torch
    import triton_attention
    import triton_matmul
    from fa3_attention import FlashAttention3
    from language_case import Effort
    from triton_compilation import Compilation

    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = True
    attends, multiplies = {"attention", "drawn"} & {*chosen}, {"matmul", "types", "drawn"} & {*chosen}
    evens = [True] * ("attention" in chosen or "drawn" in chosen) + [False] * ("drawn" in chosen)
    compilation = Compilation(
        (triton_matmul.compilations((torch.bfloat16, torch.float16)) if multiplies else [])
        + (triton_attention.compilations((64, 128), evens) if attends else [])
    )
    fa3 = FlashAttention3(arguments.fa3) if arguments.fa3 else None
    budget_s, samples = arguments.budget, arguments.samples
    if arguments.quick:
        budget_s, samples = min(budget_s, QUICK_BUDGET_S), QUICK_SAMPLES
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    products = language_draw.products(arguments.seed, arguments.draws)
    attentions = language_draw.attentions(arguments.seed, -(-arguments.draws // 3))

    def drawn():
        yield from language_products.drawn_cases(products)
        yield from language_attention.drawn_cases(attentions)

    cases = {
        "matmul": language_products.matmul_cases,
        "types": language_products.type_cases,
        "rows": language_products.row_cases,
        "attention": lambda: language_attention.attention_cases(fa3),
        "paged": lambda: iter([language_attention.paged_case(fa3)]),
        "int4": lambda: iter([language_products.int4_case()]),
        "drawn": drawn,
    }
    compilation.wait()
    print(f"Triton compiled after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    result = {}
    for section in (name for name in SECTIONS if name in chosen and name in cases):
        effort = Effort(min(budget_s, DRAWN_BUDGET_S) if section == "drawn" else budget_s, samples, flush)
        most = QUICK_CASES if arguments.quick else None
        result[section] = case_run.section_rows(section, cases[section](), effort, most, started + arguments.limit)
    if "drawn" in result:
        result["drawn_worst"] = case_run.worst_drawn(result["drawn"], NUM_WORST)
    return result


def main():
    arguments = parser().parse_args()
    build = arguments.build.resolve()
    case_run.find_package(parser(), build)
    chosen, started = arguments.only, time.monotonic()
    if chosen != ["compile"]:
        case_run.find_gpu(parser(), ": only --only compile does without")
    result = {"seed": arguments.seed, "budget_s": arguments.budget}
    if "compile" in chosen:
        import language_compile

        result["compile"] = language_compile.measured(build, 1 if arguments.quick else COMPILING_PROCESSES)
    if chosen != ["compile"]:
        result |= run_cases([name for name in chosen if name != "compile"], arguments, started)
    case_run.end_sections(result, started)


if __name__ == "__main__":
    main()
