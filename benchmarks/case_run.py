"""A benchmark of cases by section (benchmarks/gpu_language.py, gpu_attention.py): its arguments, and cases one after the other until a limit of time."""

import argparse
import pathlib
import sys
import time

import result_file


def sections_of(text, sections):
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in sections]:
        raise argparse.ArgumentTypeError(
            f"there is no section {', '.join(unknown)}; the sections are {', '.join(sections)}"
        )
    return [name for name in sections if name in chosen]


def positive(number_type):
    def parse(text):
        if (number := number_type(text)) <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return number

    return parse


def case_parser(description, sections, *, budget_s, budget, samples, seed, draws, drawn):
    """The arguments of such a benchmark. `budget` and `drawn` say what the budget and the draws are for."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("build", type=pathlib.Path, help="the build directory")
    made.add_argument(
        "--only",
        type=lambda text: sections_of(text, sections),
        default=list(sections),
        help="comma-separated, of " + ", ".join(sections),
    )
    made.add_argument("--budget", type=positive(float), default=budget_s, help=budget)
    made.add_argument(
        "--samples", type=positive(int), default=samples, help="of each case; short ones get four times as many"
    )
    made.add_argument("--seed", type=int, default=seed, help="of the shapes in the section drawn")
    made.add_argument("--draws", type=positive(int), default=draws, help=drawn)
    made.add_argument("--limit", type=positive(float), default=480.0, help="seconds after which no case is begun")
    made.add_argument(
        "--fa3", type=pathlib.Path, help="the library of FlashAttention-3: see benchmarks/fa3_attention.py"
    )
    return made


def find_package(parser, build):
    """Makes the build's package the one that is imported."""
    if not (build / "python" / "kiln").exists():
        parser.error(f"there is no Python package in {build}: run scripts/setup, or name another build")
    sys.path.insert(0, str(build / "python"))


def find_gpu(parser, otherwise):
    """Ends the program where torch or a GPU is missing; `otherwise` says what does without."""
    try:
        import torch
    except ImportError:
        parser.error(f"this Python has no torch, which holds the tensors{otherwise}")
    if not torch.cuda.is_available():
        parser.error(f"torch finds no NVIDIA GPU{otherwise}")


def section_rows(section, cases, effort, most, ends):
    """Rows of at most so many cases; those that would start after `ends` are named."""
    import torch
    from language_case import measured_row

    rows = []
    for place, case in enumerate(cases):
        if place == most:
            break
        if time.monotonic() > ends:
            rows.append({"case": case.name, "dtype": case.what["dtype"], "not_run": "after the limit"})
        else:
            rows.append(measured_row(case, effort))
        del case
        torch.cuda.empty_cache()
    print(f"{section}: done", file=sys.stderr, flush=True)
    return rows


def worst_drawn(rows, count):
    from language_row import worst_of

    worst = worst_of(rows, count)
    for row in worst:
        print(f"drawn, among the worst: {row['case']}: {row['speed']:.3f}", file=sys.stderr, flush=True)
    return worst


def end(result, rows, started):
    """Prints the result, of which these are the rows; ends the program with an error where a case failed."""
    demands = [demand for row in rows for demand in row.get("demands", {}).values()]
    print(
        f"{sum(demand['met'] for demand in demands)} of {len(demands)} demands met, {time.monotonic() - started:.0f} s",
        file=sys.stderr,
    )
    result_file.emit(result)
    if any("failed" in row for row in rows):
        sys.exit(1)


def end_sections(result, started):
    end(result, [row for section in result.values() if isinstance(section, list) for row in section], started)
