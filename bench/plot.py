"""A plot with two logarithmic axes, as SVG."""
import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LEGEND_ROW = 640, 400, 64, 190, 40, 52, 20
# Okabe and Ito's colours, which the colour-blind can tell apart too; further curves repeat them in dashes.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
DASHES = ["", "7 3", "2 3"]


def power_marks(low, high, base):
    """Powers of the base from low to high."""
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    return [base**power for power in range(first, last + 1)]


class Axis:
    """Values to pixels, from the first mark to the last."""

    def __init__(self, marks, begin, end):
        self.marks, self.begin, self.end = marks, begin, end
        self.low, self.high = math.log(marks[0]), math.log(max(marks[-1], marks[0] * 1.01))

    def place(self, value):
        return self.begin + (self.end - self.begin) * (math.log(value) - self.low) / (self.high - self.low)


def text(x, y, words, **style):
    style = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in {"font_size": 12, **style}.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif"{style}>{html.escape(words)}</text>'


def line(x1, y1, x2, y2, colour, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def log_plot(title, x_label, y_label, curves):
    """curves: {name: [(x, y)]}, all above 0. A strong line marks y = 1."""
    points = [point for curve in curves.values() for point in curve]
    xs, ys = zip(*points)
    x = Axis(power_marks(min(xs), max(xs), 2), LEFT, WIDTH - RIGHT)
    y = Axis(power_marks(min(*ys, 1), max(*ys, 1), 2), HEIGHT - BOTTOM, TOP)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', text(LEFT, 22, title, font_size=14)]
    for mark in x.marks:
        place = x.place(mark)
        parts += [line(place, TOP, place, HEIGHT - BOTTOM, "#e0e0e0"),
                  text(place, HEIGHT - BOTTOM + 18, f"{mark:,}", text_anchor="middle")]
    for mark in y.marks:
        place = y.place(mark)
        parts += [line(LEFT, place, WIDTH - RIGHT, place, "#404040" if mark == 1 else "#e0e0e0", 1.5 if mark == 1 else 1),
                  text(LEFT - 6, place + 4, f"{mark:g}", text_anchor="end")]
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label, text_anchor="middle"),
              text(16, middle, y_label, text_anchor="middle", transform=f"rotate(-90 16 {middle:.1f})")]
    for number, (name, curve) in enumerate(curves.items()):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        corners = " ".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in curve)
        row = TOP + 8 + LEGEND_ROW * number
        parts += [f'<polyline points="{corners}" fill="none" {stroke}/>',
                  f'<path d="M{WIDTH - RIGHT + 14} {row} h26" {stroke}/>', text(WIDTH - RIGHT + 46, row + 4, name)]
    return "\n".join([*parts, "</svg>", ""])
