"""The length from which one thing is faster than another, found by measuring."""

LEAST, MOST = 32, 8192  # tokens
HALVINGS, STEP = 3, 8   # of the last gap between two lengths, which are multiples of the step


class Crossover:
    """Ratios of several names at more and more lengths.

    Args:
        names (iterable): what is compared.
        measure (function): (n, names) -> {name: ratio}, above 1 where the name is faster than what it is compared with.
        most (int): the greatest length.
    """

    def __init__(self, names, measure, most=MOST):
        self.ratios = {name: {} for name in names}  # {name: {n: ratio}}
        self.measure = measure
        self.most = min(most, MOST)

    def first_win(self, name):
        """The shortest length from which on all that were measured win; None if the longest does not."""
        last_loss = self.last_loss(name)
        return min((n for n in self.ratios[name] if last_loss is None or n > last_loss), default=None)

    def last_loss(self, name):
        return max((n for n, ratio in self.ratios[name].items() if ratio <= 1), default=None)

    def add(self, n, names):
        for name, ratio in self.measure(n, names).items():
            self.ratios[name][n] = ratio

    def halve(self, name):
        """Measures between the last loss and the first win after it; false if nothing lies between."""
        win, loss = self.first_win(name), self.last_loss(name)
        middle = 0 if win is None or loss is None else (win + loss) // 2 // STEP * STEP
        if loss is None or middle <= loss:
            return False
        self.add(middle, [name])
        return True

    def run(self):
        """Lengths double; then each name's gap is halved."""
        n = LEAST
        while n <= max(self.most, LEAST):
            self.add(n, list(self.ratios))
            n *= 2
        for name in self.ratios:
            for _ in range(HALVINGS):
                if not self.halve(name):
                    break
        return self
