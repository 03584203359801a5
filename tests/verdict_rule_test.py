#!/usr/bin/env python3
"""recipes/verdict_rule.py: the rule of docs/results.md by numbers computed by hand, and how often it errs."""
import math
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "recipes"))
import verdict_rule as rule  # noqa: E402


class Student(unittest.TestCase):
    def test_quantiles(self):
        """The table that every textbook has."""
        for nu, t in ((1, 12.706), (2, 4.303), (4, 2.776), (8, 2.306), (14, 2.145), (30, 2.042)):
            self.assertAlmostEqual(rule.student_quantile(0.95, nu), t, delta=5e-4)
        self.assertAlmostEqual(rule.student_quantile(0.90, 8), 1.860, delta=5e-4)

    def test_tails(self):
        """One degree of freedom is Cauchy's distribution, two have a closed form, and both hold for small and large t."""
        for t in (-2.5, -0.1, 0, 0.1, 1, 7, 300):
            self.assertAlmostEqual(rule.student_tail(t, 1), 0.5 - math.atan(t) / math.pi, places=12)
            self.assertAlmostEqual(rule.student_tail(t, 2), 0.5 - t / (2 * math.sqrt(2 + t * t)), places=12)


class Rule(unittest.TestCase):
    def test_difference(self):
        """Variances 1 and 4 in pairs of two degrees give 2.5 and four; the error is sqrt(2.5 * 2/3), with lines 1 more."""
        systems = {"a": [1, 2, 3], "b": [2, 4, 6]}
        found = rule.estimate(systems, "a", "b")
        self.assertEqual((found.difference, found.nu), (-2, 4))
        self.assertAlmostEqual(found.interval()[1], -2 + 2.776445 * math.sqrt(5 / 3), places=5)
        with_lines = rule.estimate(systems, "a", "b", lines=1.0)
        self.assertAlmostEqual(with_lines.interval()[0], -2 - 2.776445 * math.sqrt(5 / 3 + 1), places=5)
        self.assertEqual(with_lines.interval(lines=False), found.interval())
        self.assertEqual(rule.by_difference(found, found.two_sided()), "undecided")

    def test_pool_takes_every_system(self):
        found = rule.estimate({"a": [1, 2, 3], "b": [2, 4, 6], "c": [5, 5, 5], "one": [9]}, "a", "b")
        self.assertEqual(found.nu, 6)
        self.assertAlmostEqual(found.variance, 10 / 6 * 2 / 3)

    def test_outlier_keeps_its_own(self):
        """Variance 100 beside 1: (100/3 + 1/3)^2 / ((100/3)^2 / 2 + (1/3)^2 / 4) degrees of freedom."""
        systems = {"a": [0, 10, 20], "b": [1, 2, 3], "c": [2, 3, 4]}
        found = rule.estimate(systems, "a", "b")
        self.assertAlmostEqual(found.variance, 101 / 3)
        self.assertAlmostEqual(found.nu, (101 / 3) ** 2 / ((100 / 3) ** 2 / 2 + (1 / 3) ** 2 / 4))
        self.assertEqual(rule.estimate(systems, "b", "c").nu, 4)
        self.assertEqual(rule.pooled({"a": [0, 2.9, 5.8], "b": [1, 2, 3]}).own, {})  # less than three times as much

    def test_holm(self):
        self.assertEqual([round(p, 9) for p in rule.holm([0.01, 0.04, 0.03])], [0.03, 0.06, 0.06])
        self.assertEqual(rule.holm([0.9, 0.6]), [1.0, 1.0])
        self.assertEqual([round(p, 9) for p in rule.holm([0.01, 0.04], count=3)], [0.03, 0.08])

    def test_margins(self):
        """An error of .1 with 8 degrees reaches .186 at 90%."""
        found = rule.Estimate(-0.5, 0.01, 8)
        judge = lambda margin, better=1, equal=False, value=found: rule.by_margin(rule.margin_ps(value, margin, better, equal))
        self.assertEqual([judge(margin) for margin in (0.7, 0.6, 0.4, 0.3)], ["holds", "undecided", "undecided", "does not hold"])
        self.assertEqual(judge(0.1, better=-1), "holds")  # fewer bits are better
        self.assertEqual([judge(margin, equal=True) for margin in (0.7, 0.5, 0.3)], ["holds", "undecided", "does not hold"])
        above = rule.Estimate(0.5, 0.01, 8)
        self.assertEqual([judge(0.3, equal=equal, value=above) for equal in (False, True)], ["holds", "does not hold"])

    def test_beats_every(self):
        """With 8 degrees, .05 needs 2.306 errors, and the smaller of two p by Holm 2.75."""
        of = lambda *differences: rule.beats_every([rule.Estimate(difference, 1.0, 8) for difference in differences])
        self.assertEqual([of(2.4, 2.4), of(2.4, 2.2), of(2.4, -2.5), of(2.4, -3)], ["holds", "undecided", "undecided", "does not hold"])

    def test_speed(self):
        def judge(ratios, published, slow=False):
            found = rule.speed(ratios, published, slow)
            return rule.by_difference(found, found.two_sided(), -1 if slow else 1)

        self.assertEqual([judge([0.95, 0.96, 0.94, 0.95, 0.95], published) for published in (1.0, 1.05, 1.2)],
                         ["holds", "undecided", "does not hold"])
        self.assertEqual([judge([0.30, 0.31, 0.29, 0.30, 0.30], published, slow=True) for published in (0.3, 0.2)],
                         ["holds", "does not hold"])
        self.assertAlmostEqual(rule.speed([0.9] * 5, 1.0).difference, 0)

    def test_jackknife(self):
        """1, 2, 3 have the error sqrt(2/3 * 2); t of two degrees is 4.302653."""
        low, high = rule.jackknife(2.5, [1, 2, 3])
        self.assertAlmostEqual(high - 2.5, 4.302653 * math.sqrt(4 / 3), places=5)
        self.assertAlmostEqual(low + high, 5)

    def test_early(self):
        """By the better side; the interval at half reaches by 2.3 errors of 1; a third is the most by which D may shrink."""
        for unit, best, cases in (("BLEU", 41.02, {(30, 39.02): False, (39.01, 30): True}), ("bits", 1.0, {(1.05, 9): False, (9, 1.051): True}),
                                  ("F1", 80.0, {(76, 10): False, (75.9, 75.9): True})):
            self.assertEqual({values: rule.too_early(values, best, unit) for values in cases}, cases)
        final, half = rule.Estimate(1.0, 0.01, 8), lambda difference: rule.Estimate(difference, 1.0, 8)
        said = [rule.contradicted(final, half(difference)).partition(" ")[0] for difference in (1, 1.49, 1.51, -2, -3)]
        self.assertEqual(said, ["", "", "it", "", "the"])
        self.assertEqual(rule.contradicted(rule.Estimate(1.0, 1.0, 8), half(4)), "")  # an end that decides nothing
        lost = rule.Estimate(-3.0, 0.01, 8)  # by 2 more than a margin of 1
        said = [rule.contradicted(lost, half(difference), at=-1).partition(" ")[0] for difference in (-3, -3.9, -4.1, 1, 2)]
        self.assertEqual(said, ["", "", "it", "", "the"])


class FalseRates(unittest.TestCase):
    def test_five_percent(self):
        """Normal seeds of equal variance: t is exact, so the rate is that of a coin of .05; the bounds are four deviations."""
        trials = 2000
        found = {name: errs for name, errs in rule.simulations()}
        for name in ("the same, if the test text had no noise", "not worse: the truth is the margin"):
            rng = random.Random(5)
            false = sum(found[name](rng) for _ in range(trials))
            self.assertLess(abs(false - 0.05 * trials), 4 * math.sqrt(0.05 * 0.95 * trials), name)

    def test_power(self):
        """Systems ten deviations apart are told apart."""
        world, rng = rule.World(lines=0.0, shift=10), random.Random(1)
        self.assertTrue(all(world.compare(world.draw(rng))[0].two_sided() < 0.05 for _ in range(50)))

    def test_draw(self):
        drawn = rule.World(systems=3, seeds=4, shift=100.0).draw(random.Random(1))
        self.assertEqual([len(values) for values in drawn.values()], [4, 4, 4])
        self.assertGreater(min(drawn[0]), 50 + max(drawn[1] + drawn[2]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
