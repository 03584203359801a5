"""Tables as Markdown and CSV."""
import csv
import math
import sys


def text_of(value):
    if isinstance(value, float):
        if math.isnan(value):
            return "once"
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def heading(title, keys):
    return [f"### {title}", "", "| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]


def line_of(row):
    return "| " + " | ".join(text_of(value) for value in row.values()) + " |"


class Report:
    """Prints tables and writes them to folder/NAME.csv; all of them together to folder/bench.md."""

    def __init__(self, folder, heading):
        self.folder = folder
        self.parts = [heading]
        self.has_failures = False
        self.write()
        print(heading, flush=True)

    def write(self):
        (self.folder / "bench.md").write_text("\n".join(self.parts))

    def add(self, text):
        self.parts.append(text)
        print(text, flush=True)
        self.write()

    def failure(self, part, why):
        self.has_failures = True
        print(f"bench: {part}: {why}", file=sys.stderr)
        self.add(f"### {part}: not measured\n\n{why}\n")

    def table(self, name, title, rows):
        """rows: dictionaries with the same keys, a list or what yields them as they are measured. Each is printed and
        stored at once. Returns them all."""
        done = []
        for row in rows:
            if not done:
                self.add("\n".join(heading(title, row)))
            self.add(line_of(row))
            done.append(row)
            self.write_csv(name, done)
        if done:
            self.add("")
        return done

    def write_csv(self, name, rows):
        with open(self.folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def picture(self, name, svg, caption):
        (self.folder / f"{name}.svg").write_text(svg)
        self.add(f"![{caption}]({name}.svg)\n")
