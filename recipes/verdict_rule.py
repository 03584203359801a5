"""The rule by which docs/results.md says "holds": intervals over seeds, margins, families, and how often the rule errs.
recipes/verdicts.py applies it to the files in recipes/results."""
import dataclasses
import functools
import math
import random
import statistics

SEEDS, PAIRS = 3, 5  # what a verdict needs: models on each side, and pairs of measurements of a speed
OUTLIER = 3  # a system whose standard deviation is this many times the pool's keeps its own
LEVEL, TAIL = 0.95, 0.90  # intervals of a difference, and of a margin
VERDICTS = ("holds", "does not hold", "undecided")
FAST = 0.9  # of the published ratio: as fast
NEAR = {"BLEU": 2.0, "F1": 0.05, "bits": 0.05}  # how far from the best known model is early: points of BLEU, else a share
KEPT = 2 / 3  # of what decides after half of the updates: less of it in the end is early


def beta_fraction(x, a, b):
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / (1 + step * d or tiny)
            c = 1 + step / c or tiny
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def student_tail(t, nu):
    """P(T > t) of Student's t with nu degrees of freedom."""
    if t < 0:
        return 1 - student_tail(-t, nu)
    x, a, b = nu / (nu + t * t), nu / 2, 0.5
    if t == 0:
        return 0.5
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * beta_fraction(x, a, b) / a / 2
    return (1 - front * beta_fraction(1 - x, b, a) / b) / 2


@functools.lru_cache(maxsize=4096)
def student_quantile(level, nu):
    """The t that a two-sided interval of this level needs."""
    low, high = 0.0, 1.0
    while student_tail(high, nu) > (1 - level) / 2:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, nu) > (1 - level) / 2 else (low, middle)
    return (low + high) / 2


@dataclasses.dataclass(frozen=True)
class Pool:
    """The variance of seeds, pooled over systems of the same input, size and measure; `own` has the systems apart from it."""
    variance: float
    nu: int
    own: dict

    def of(self, name, count):
        """(variance of the mean of `count` seeds, degrees of freedom)."""
        variance, nu = self.own.get(name, (self.variance, self.nu))
        return variance / count, nu


def pooled(systems):
    """The pool of {name: values of the seeds}."""
    squares = {name: (statistics.variance(values) * (len(values) - 1), len(values) - 1)
               for name, values in systems.items() if len(values) > 1}

    def variance(names):
        nu = sum(squares[name][1] for name in names)
        return (sum(squares[name][0] for name in names) / nu if nu else 0.0), nu

    own = {}
    for name, (square, nu) in squares.items():
        others, count = variance(squares.keys() - {name})
        if count and square / nu >= OUTLIER**2 * others and square > 0:
            own[name] = (square / nu, nu)
    if len(own) == len(squares):  # then there is no pool to differ from
        own = {}
    return Pool(*variance(squares.keys() - own.keys()), own)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A difference of means, the variance that seeds give it, its degrees of freedom, and the variance over test lines."""
    difference: float
    variance: float
    nu: float
    lines: float | None = None

    def error(self, lines=True):
        return math.sqrt(self.variance + (self.lines or 0 if lines else 0))

    def interval(self, level=LEVEL, lines=True):
        reach = student_quantile(level, self.nu) * self.error(lines)
        return self.difference - reach, self.difference + reach

    def p(self, at=0.0):
        """One-sided: how likely a difference as far above `at` is if `at` were the truth."""
        error = self.error()
        if not error:
            return 0.5 if self.difference == at else float(self.difference < at)
        return student_tail((self.difference - at) / error, self.nu)

    def two_sided(self, at=0.0):
        return 2 * min(self.p(at), 1 - self.p(at))


def estimate(systems, name, baseline, lines=None, pool=None):
    """The difference of the means of two systems; without a baseline, of one system from 0. The pool is that of the systems."""
    if baseline is None:
        values = systems[name]
        return Estimate(statistics.fmean(values), statistics.variance(values) / len(values), len(values) - 1, lines)
    pool = pool or pooled(systems)
    parts = {each: pool.of(each, len(systems[each])) for each in (name, baseline)}
    (first, nu), (second, other_nu) = parts[name], parts[baseline]
    difference = statistics.fmean(systems[name]) - statistics.fmean(systems[baseline])
    variance = first + second
    if parts.keys() & pool.own.keys():  # Welch
        weights = first**2 / nu + second**2 / other_nu
        nu = variance**2 / weights if weights else nu + other_nu
    return Estimate(difference, variance, nu, lines)


def holm(ps, count=None):
    """The adjusted p of each of a family, in their order. A larger `count` has room for comparisons without a p yet."""
    adjusted, least, count = [0.0] * len(ps), 0.0, count or len(ps)
    for rank, i in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (count - rank) * ps[i]))
        adjusted[i] = least
    return adjusted


def jackknife(whole, left_out):
    """The 95% interval of a difference, from its values with each document left out: t with n - 1 degrees of freedom."""
    n, middle = len(left_out), statistics.fmean(left_out)
    error = math.sqrt((n - 1) / n * sum((value - middle) ** 2 for value in left_out))
    reach = student_quantile(LEVEL, n - 1) * error
    return whole - reach, whole + reach


def by_difference(found, p, better=1):
    """Of an estimate whose (adjusted) two-sided p is given: is the system above, in the direction that is better?"""
    if p >= 1 - LEVEL:
        return "undecided"
    return "holds" if found.difference * better > 0 else "does not hold"


def margin_ps(found, margin, better=1, equal=False):
    """One-sided p of "not worse than the margin" (or "equal within it"), and of its contrary."""
    toward = dataclasses.replace(found, difference=better * found.difference)
    worse = toward.p(-margin)
    if not equal:
        return worse, 1 - worse
    return max(worse, 1 - toward.p(margin)), min(1 - worse, toward.p(margin))


def by_margin(ps, adjusted=None):
    """The verdict of margin_ps, which is that of the interval of 90%; in a family, by the adjusted smaller p."""
    holds, fails = ps
    if (min(ps) if adjusted is None else adjusted) >= (1 - TAIL) / 2:
        return "undecided"
    return "holds" if holds < fails else "does not hold"


def beats_every(found, better=1):
    """Every comparison at .05; one that is lost after Holm refutes the claim."""
    adjusted = holm([each.two_sided() for each in found])
    if any(by_difference(each, p, better) == "does not hold" for each, p in zip(found, adjusted)):
        return "does not hold"
    return "holds" if all(by_difference(each, each.two_sided(), better) == "holds" for each in found) else "undecided"


def speed(ratios, published, slow=False):
    """The estimate of how far the log of a ratio of speeds lies above the least that counts as fast as published; with `slow`, above
    the most that counts as slow. The ratios are of alternating pairs."""
    found = estimate({"": [math.log(ratio) for ratio in ratios]}, "", None)
    bound = math.log(published / FAST if slow else published * FAST)
    return dataclasses.replace(found, difference=found.difference - bound)


def ratio_interval(ratios):
    return tuple(math.exp(end) for end in estimate({"": [math.log(ratio) for ratio in ratios]}, "", None).interval())


def too_early(values, best, unit):
    """Is even the best of the values far from the best known model of the same size? A loss by one mechanism is no excuse."""
    if unit == "bits":
        return min(values) > best * (1 + NEAR[unit])
    return max(values) < best - NEAR[unit] * (1 if unit == "BLEU" else best)


def contradicted(final, half, at=0.0):
    """Does D after half of the updates say that the models are early? What decides is D less `at`, which is minus the margin of
    a comparison with one. The interval at half leaves out its sign in the end; or the end would decide, but it has shrunk by more
    than a third."""
    (low, high), (least, most) = half.interval(), final.interval(TAIL)
    now, before = final.difference - at, half.difference - at
    if (high < at) if now > 0 else (low > at):
        return "the sign is another after half of the updates"
    if not least <= at <= most and now * before > 0 and abs(now) < KEPT * abs(before):
        return "it has shrunk by more than a third since half of the updates"
    return ""


@dataclasses.dataclass(frozen=True)
class World:
    """Systems whose truth is known, for the rate of false verdicts. The unit is the standard deviation of seeds."""
    systems: int = 2
    seeds: int = SEEDS
    shift: float = 0.0  # of the first system
    lines: float = 1.0  # standard deviation of a system's mean over test lines
    unequal: float = 1.0  # standard deviation of the first system's seeds

    def draw(self, rng):
        drawn = {}
        for i in range(self.systems):
            level = rng.gauss(0, self.lines) + (self.shift if i == 0 else 0)
            drawn[i] = [level + rng.gauss(0, self.unequal if i == 0 else 1) for _ in range(self.seeds)]
        return drawn

    def compare(self, drawn):
        """The first system against each other one."""
        pool = pooled(drawn)
        return [estimate(drawn, 0, i, 2 * self.lines**2, pool) for i in range(1, self.systems)]


def pair(world, errs):
    return lambda rng: errs(world.compare(world.draw(rng))[0])


def family(world):
    def any_false(rng):
        found = world.compare(world.draw(rng))
        return any(p < 1 - LEVEL for p in holm([each.two_sided() for each in found]))
    return any_false


def learns_slowly(before, now):
    """A system that equals the others in the end of a longer training: `before` behind after half of the updates, of which there is
    one seed, and `now` behind in the end. The verdict that it is worse is false."""
    world, half = World(systems=11, lines=0.0, shift=-now), World(lines=0.0, seeds=1, shift=-before)

    def false(rng):
        drawn = world.draw(rng)
        found, first = world.compare(drawn)[0], half.draw(rng)
        at_half = Estimate(first[0][0] - first[1][0], 2 * pooled(drawn).variance, found.nu)
        return found.two_sided() < 1 - LEVEL and not contradicted(found, at_half)
    return false


def every(world):
    """The first system equals one other, and is far above the rest: the worst case."""
    def false(rng):
        drawn = world.draw(rng)
        for i in range(2, world.systems):
            drawn[i] = [value - 100 for value in drawn[i]]
        return beats_every(world.compare(drawn)) != "undecided"
    return false


def simulations():
    """(name, function of a random generator that says whether a trial errs)."""
    margin, pool = 3.0, World(systems=11)
    differs = lambda found: found.two_sided() < 1 - LEVEL
    within = lambda equal: lambda found: by_margin(margin_ps(found, margin, equal=equal)) == "holds"
    yield "difference: two systems that are equal", pair(World(), differs)
    yield "the same, if the test text had no noise", pair(World(lines=0.0), differs)
    yield "the same, in a pool of eleven systems", pair(dataclasses.replace(pool, lines=0.0), differs)
    yield "the same, and one system's seeds spread five times as much", pair(World(systems=11, lines=0.0, unequal=5.0), differs)
    yield "any of ten comparisons of a table, with Holm", family(dataclasses.replace(pool, lines=0.0))
    yield "not worse: the truth is the margin", pair(World(systems=11, lines=0.0, shift=-margin), within(False))
    yield "equal: the truth is the margin", pair(World(systems=11, lines=0.0, shift=margin), within(True))
    yield "beats every other of five: equal to one, far above the rest", every(World(systems=6, lines=0.0))
    yield "early: a system is behind by 6 SD after half of the updates, by 3 in the end, and by none later", learns_slowly(6, 3)
    yield "the same, behind by 6 and by 4.5", learns_slowly(6, 4.5)


def false_rates(trials, seed):
    """{name: share of the trials with a false verdict}."""
    rates = {}
    for name, errs in simulations():
        rng = random.Random(f"{seed} {name}")
        rates[name] = sum(errs(rng) for _ in range(trials)) / trials
    return rates
