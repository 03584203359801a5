"""A folder of small tables of results, to write to."""
import csv
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "recipes"))
import verdict_files as files  # noqa: E402


class ResultTables(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.results = self.folder / "results"
        self.results.mkdir()
        empty = "-"
        self.table("claims", [["id", "rank", "where", "claim", "published", "note", "training", "ours", "not-judged"],
                              ["Z-1", "1", "T1", "a beats b", "1", empty, "here", empty, empty]])
        self.table("settings", [["data", "name", "training", "unit", "best", "source", "half", "seeds"],
                                ["d", "D", "here", "BLEU", "41", "-", "h", "4"], ["h", "H", "here", "BLEU", "-", "-", "-", "-"]])
        self.comparisons([["Z-1", "d", "difference", "a", "b", "BLEU", "+"]])
        self.runs([])
        self.table("lines", [["data", "system", "baseline", "seed", "measure", "low", "high", "p", "recorded"]])

    def table(self, name, rows):
        with open(self.results / f"{name}.tsv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None).writerows(rows)

    def comparisons(self, rows):
        head = ["claim", "data", "kind", "system", "baseline", "measure", "better", "margin", "source", "family", "weights", "scope"]
        self.table("comparisons", [head, *(row + ["-"] * (len(head) - len(row)) for row in rows)])

    def runs(self, rows):
        """Rows of (data, system, values of seeds 1, 2, ..., processor)."""
        head = ["data", "system", "seed", "measure", "value", "updates", "cpu-seconds", "processor", "precision", "recorded", "share"]
        self.table("runs", [head, *([data, system, seed, "BLEU", value, 1, "-", place, "-", "-", "-"]
                                    for data, system, values, place in rows for seed, value in enumerate(values, 1))])

    def verdict(self):
        book = files.Book(self.results)
        return book.verdict(book.claims[0]), book.results[0].why

    HALF = [("h", "a", [40], "p"), ("h", "b", [39], "p")]
