#!/usr/bin/env python3
"""docs/options.md is what the program says of its options today."""
import difflib
import pathlib
import re
import unittest

import options_page
from fovea_program import checked

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "options.md"
TASKS = ("translation", "language", "image", "tagging", "caption")


class OptionsPage(unittest.TestCase):
    maxDiff = None

    def test_the_page_is_up_to_date(self):
        made, stands = options_page.page(), PAGE.read_text()
        changes = "\n".join(difflib.unified_diff(stands.splitlines(), made.splitlines(), "docs/options.md", "the program", n=0,
                                                 lineterm=""))
        self.assertEqual(changes, "", "docs/options.md is stale; tests/options_page.py says how to make it")

    def test_every_option_has_a_row(self):
        """The names that --dump-config has, whatever becomes of them in options_page.py."""
        sections = re.split(r"^## ", PAGE.read_text(), flags=re.M)[1:]
        self.assertEqual([section.split("\n", 1)[0] for section in sections],
                         re.findall(r"^  (\w+)  ", checked("--help").stdout, re.M))
        for section in sections:
            command = section.split("\n", 1)[0]
            rows = set(re.findall(r"^\| `(--[\w-]+)`", section, re.M))
            calls = [[command, "--task", task] for task in TASKS] if command == "train" else [[command]]
            options = {name for call in calls for name in options_page.values_of(checked(*call, "--dump-config").stdout)}
            self.assertTrue(options)
            self.assertEqual(options - rows, set(), command)


if __name__ == "__main__":
    unittest.main(verbosity=2)
