#!/usr/bin/env python3
"""The output of bench/ for its measurements: tables row by row, the picture, and the length of a crossover."""
import contextlib
import io
import math
import pathlib
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import shortest  # noqa: E402
from crossover import Crossover  # noqa: E402
from plot import log_plot  # noqa: E402
from report import Report  # noqa: E402
from timing import Timing, compared, in_turns  # noqa: E402


class CrossoverTest(unittest.TestCase):
    def run_on(self, most=8192, **crossings):
        """Names that win from their length on, with the calls that were made."""
        calls = []

        def measure(n, names):
            calls.append((n, tuple(names)))
            return {name: n / crossings[name] + 1e-9 for name in names}

        return Crossover(crossings, measure, most).run(), calls

    def test_halves_the_gap(self):
        found, calls = self.run_on(a=300)
        self.assertEqual(found.first_win("a"), 320)  # 256 loses and 512 wins; then 384, 320 and 288
        self.assertEqual([n for n, _ in calls[-3:]], [384, 320, 288])

    def test_always_and_never(self):
        found, calls = self.run_on(most=128, always=8, never=1000)
        self.assertEqual(found.first_win("always"), 32)
        self.assertIsNone(found.first_win("never"))
        self.assertEqual([n for n, _ in calls], [32, 64, 128])

    def test_a_win_before_a_loss_does_not_count(self):
        found = Crossover(["a"], lambda n, names: {"a": 2 if n != 256 else 0.5}, 1024)
        found.run()
        self.assertGreater(found.first_win("a"), 256)
        self.assertLessEqual(found.first_win("a"), 320)


class ReportTest(unittest.TestCase):
    def test_rows_are_stored_as_they_come(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as shown:
            folder = pathlib.Path(folder)
            report = Report(folder, "heading")

            def rows():
                yield {"n": 1, "ms": 2.0}
                self.assertIn("| 1 | 2 |", shown.getvalue())
                self.assertEqual((folder / "t.csv").read_text(), "n,ms\n1,2.0\n")
                yield {"n": 2, "ms": math.nan}

            report.table("t", "title", rows())
            self.assertIn("### title\n\n| n | ms |\n| --- | --- |\n| 1 | 2 |\n| 2 | once |", (folder / "bench.md").read_text())
            report.table("none", "nothing", [])
            self.assertFalse((folder / "none.csv").exists())

    def test_a_plot_is_xml_with_a_curve_for_each_name(self):
        svg = xml.dom.minidom.parseString(log_plot("a < b", "x", "y", {"p&q": [(32, 0.5), (64, 3)], "r": [(32, 2)]}))
        self.assertEqual(len(svg.getElementsByTagName("polyline")), 2)
        corners = svg.getElementsByTagName("polyline")[0].getAttribute("points").split()
        (x0, y0), (x1, y1) = (map(float, corner.split(",")) for corner in corners)
        self.assertLess(x0, x1)
        self.assertGreater(y0, y1)  # pixels go down


class ShortestTest(unittest.TestCase):
    """The picture of the lengths from which mechanisms are faster than SDPA."""

    def rows(self, lengths):
        for (level, which), first in lengths.items():
            for spec in shortest.SPECS:
                yield {"level": level, "pass": which, "mechanism": spec, "faster from": first, "longest": 2048}

    def test_a_mark_for_each_win_and_an_arrow_for_each_loss(self):
        forward, both = shortest.PASSES.values()
        drawn = shortest.picture(self.rows({("AVX2", forward): None, ("AVX2", both): 64, ("AVX-512", both): 96}), "a < b")
        svg = xml.dom.minidom.parseString(drawn)
        marks = svg.getElementsByTagName("circle")
        legend, count = 4, len(shortest.SPECS)
        self.assertEqual(len(marks), legend + 2 * count)
        self.assertEqual(sum(text.firstChild.data.startswith("→") for text in svg.getElementsByTagName("text")), count)
        places = sorted({float(mark.getAttribute("cx")) for mark in marks[legend:]})
        self.assertEqual(len(places), 2)

    def test_levels_hold_both_sides(self):
        found = shortest.levels()
        self.assertEqual(list(found)[0], "AVX2")
        if len(found) > 1:
            self.assertEqual(set(found["AVX2"]), {"FOVEA_CPU", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS"})
            self.assertEqual(list(found.values())[-1], {})


class TimingTest(unittest.TestCase):
    def test_a_slow_side_runs_once(self):
        counts = {"slow": 0, "fast": 0}

        def side(name):
            def run():
                counts[name] += 1
            return run

        clock = iter(range(10**6))
        import timing
        real, timing.time = timing.time, type("Clock", (), {"perf_counter": staticmethod(lambda: next(clock))})
        try:  # each run takes a tick
            times = in_turns({name: side(name) for name in counts}, 0, least=3, once_above=0.5)
            self.assertEqual((counts, times["slow"].seconds), ({"slow": 1, "fast": 1}, 1))
            times = in_turns({name: side(name) for name in counts}, 0, least=3, once_above=2)
            self.assertEqual(counts, {"slow": 5, "fast": 5})
        finally:
            timing.time = real
        row = compared(Timing(1, math.nan), Timing(3, 0.1))
        self.assertEqual((row["times faster"], row["spread %"]), (3, 10))


if __name__ == "__main__":
    unittest.main()
