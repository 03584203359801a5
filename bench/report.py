"""Tables as Markdown and CSV."""
import csv
import sys


def text_of(value):
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def markdown(title, rows):
    """rows: dictionaries with the same keys."""
    if not rows:
        return ""
    keys = list(rows[0])
    lines = [f"### {title}", "", "| " + " | ".join(keys) + " |", "|" + " --- |" * len(keys)]
    lines += ["| " + " | ".join(text_of(row[key]) for key in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


class Report:
    """Prints each table as it is done and writes it to folder/NAME.csv; all of them together to folder/bench.md."""

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
        if not rows:
            return
        with open(self.folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        self.add(markdown(title, rows))
