"""The form of benchmarks' results loses nothing that it is to keep, and benchmark_results.py finds what it is there to find."""

import json
import pathlib
import shutil
import tempfile
import unittest

import benchmark_results
from benchmark_results import result_file


def measured(median, **more):
    return {"median_us": median, "p10_us": median - 0.25, "p90_us": median + 0.25, **more}


CONFIG = "contiguous BLOCK_SIZE=256 num_warps=1"
ROWS = [
    {"case": "add", "config": CONFIG, "bytes": 3000, "kiln": measured(2.0), "torch": measured(4.0), "speed": 2},
    {"case": "mul", "config": CONFIG, "bytes": 3000, "kiln": measured(1.5), "met": False},
    {"case": "exp", "failed": "no kernel"},
    {
        "case": "sum",
        "config": CONFIG,
        "kiln": measured(2.5),
        "spans": [["load", 0, 1]],
        "demands": {"torch": {"met": True}},
    },
]


class ResultFile(unittest.TestCase):
    def kept(self, result):
        text = result_file.text_of(result)
        self.assertEqual(result_file.text_of(result_file.parse(text)), text)
        return result_file.parse(text)

    def test_rows_come_back(self):
        rates = {0: {"kiln": 1.5, "torch": 0.75}, 1: {"kiln": 2}}  # 3000 bytes in 2 us, 4 us and 1.5 us
        expected = json.loads(json.dumps(ROWS))
        for row, providers in rates.items():
            for provider, gb_s in providers.items():
                expected[row][provider]["gb_s"] = gb_s
        self.assertEqual(self.kept({"part": ROWS}), {"part": expected})

    def test_a_row_is_a_line(self):
        lines = result_file.text_of({"date": "2026-11-20", "part": 5 * ROWS}).splitlines()
        self.assertEqual(sum(line.strip().startswith('["') for line in lines), 5 * len(ROWS))

    def test_values(self):
        for value, kept in (
            (1.23456, 1.235),
            (0.000123456, 0.0001235),
            (123456.7, 123500),
            (1048577.0, 1048577),
            (1048577, 1048577),
            (True, True),
            (None, None),
            (float("nan"), None),
            (float("inf"), None),
            ({}, None),
            ("=", "="),
            ([1.0, 2.5], [1, 2.5]),
            (measured(2.0, mean_us=2.1, min_us=1.0, max_us=3.0), measured(2)),
            ({"median": 2.0, "p10": 1.0, "min": 0.5}, {"median": 2, "p10": 1}),
            ({"median_us": 2.0, "min_us": 1.0, "samples": 3}, {"median_us": 2, "min_us": 1, "samples": 3}),
            ({"exit": 1, "output": "long"}, {"exit": 1}),
        ):
            with self.subTest(value=value):
                self.assertEqual(self.kept({"value": value}), {} if kept is None else {"value": kept})


class BenchmarkResults(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for folder in ("docs", *benchmark_results.FOLDERS):
            (self.root / folder).mkdir(parents=True)
        self.write("README.md", "see 2026-11-20-cpu.json")
        self.write("docs/performance.md", "see benchmarks/models/2026-11-20-configs.json")
        for name in ("results/2026-11-20-cpu.json", "models/2026-11-20-configs.json"):
            self.write(f"benchmarks/{name}", result_file.text_of({"part": ROWS}))

    def write(self, name, text):
        (self.root / name).write_text(text)

    def assert_problem(self, *words):
        (found,) = benchmark_results.problems(self.root)
        for word in words:
            self.assertIn(word, found)

    def test_a_sound_tree(self):
        self.assertEqual(benchmark_results.problems(self.root), [])

    def test_another_form(self):
        self.write("benchmarks/results/2026-11-20-cpu.json", json.dumps({"part": ROWS}, indent=1))
        self.assert_problem("results/2026-11-20-cpu.json is not in the form", "benchmarks/result_file.py")

    def test_no_json(self):
        self.write("benchmarks/models/2026-11-20-configs.json", "{")
        self.assert_problem("2026-11-20-configs.json is no JSON")

    def test_a_named_file_that_is_not_there(self):
        (self.root / "benchmarks/models/2026-11-20-configs.json").unlink()
        self.assert_problem("docs/performance.md names 2026-11-20-configs.json")

    def test_too_much(self):
        many = result_file.text_of({"part": [{"case": f"{number:400}"} for number in range(1000)]})
        self.write("benchmarks/models/2026-11-21-cpu.json", many)
        self.assertEqual(benchmark_results.problems(self.root), [])
        self.write("benchmarks/results/2026-11-21-cpu.json", many)
        self.assert_problem("benchmarks/results holds", "at most 300000")


if __name__ == "__main__":
    unittest.main()
