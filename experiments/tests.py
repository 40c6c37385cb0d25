#!/usr/bin/env python3
"""Tests of claims and verdicts: python3 experiments/tests.py."""

import re
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import claims  # noqa: E402
import versions  # noqa: E402

ROWS = [
    {"round": "0", "LEN": "60", "A": "50", "B": "100"},
    {"round": "0", "LEN": "1400", "A": "200", "B": "100"},
    {"round": "1", "LEN": "60", "A": "40", "B": "120"},
]


class Claims(unittest.TestCase):
    def test_values_are_selected_and_turned_into_rates(self):
        a60 = {"result": "A", "where": {"LEN": "60"}}
        self.assertEqual(claims.measured(ROWS, {"ours": a60}), [50.0, 40.0])
        rate = {"ours": dict(a60, reciprocal=1000)}
        self.assertEqual(claims.measured(ROWS, rate), [20.0, 25.0])

    def test_quotients_are_of_one_round(self):
        ours = {"result": "A", "where": {"LEN": "1400"}, "reciprocal": 1000}
        over = {"result": "A", "where": {"LEN": "60"}, "reciprocal": 1000}
        self.assertEqual(claims.measured(ROWS, {"ours": ours, "over": over}), [0.25])

    def test_verdicts(self):
        about = {"paper": 10, "better": "higher"}
        found = [claims.compare(about, ours)[1] for ours in (8, 9.5, 12)]
        self.assertEqual(found, ["worse", "reproduced", "better"])
        less = dict(about, better="lower", is_bound=True)
        self.assertEqual([claims.compare(less, ours)[1] for ours in (9, 11)], ["reproduced", "worse"])

    def test_every_experiment_promises_what_is_plotted_and_claimed(self):
        papers = claims.papers()["experiments"]
        files = {file.stem for file in claims.HERE.glob("*.npf")} - {"shared", "hosts", "forward"}
        self.assertEqual(files, set(papers))
        for name, entry in papers.items():
            text = (claims.HERE / f"{name}.npf").read_text()
            promised = re.search(r"^results_expect=\{(.*)\}", text, re.MULTILINE)[1].split(",")
            needed = set(entry["plot"]["results"])
            for claim in entry["claims"]:
                self.assertNotEqual("cannot" in claim, "ours" in claim, claim["claim"])
                needed |= {claim[side]["result"] for side in ("ours", "over") if side in claim}
            self.assertEqual(needed - set(promised), set(), f"results_expect of {name}.npf")


class Versions(unittest.TestCase):
    def test_more_instructions_are_a_problem(self):
        def rows(old, new):
            return [{"CASE": "check", "build": "before", "y_INSTRUCTIONS": old},
                    {"CASE": "check", "build": "now", "y_INSTRUCTIONS": new}]
        self.assertEqual(versions.verdicts(rows("100", "104"))[1], [])
        self.assertIn("1.06", versions.verdicts(rows("100", "106"))[1][0])
        self.assertIn("only one", versions.verdicts(rows("100", ""))[1][0])
        self.assertIn("no values", versions.verdicts([])[1][0])

    def test_a_commit_that_is_not_there_is_said(self):
        self.assertIn("no commit 'nobody'", versions.before("nobody")[1])
        self.assertEqual(len(versions.before("HEAD")[0]), 40)


if __name__ == "__main__":
    unittest.main()
