#!/usr/bin/env python3
"""make_manual_test.py DISTRUN"""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import make_manual

HELP = """Start the workers of a run.
Usage: distrun launch [flags] PROGRAM

Workers:
  -m, --module              PROGRAM is a module,
                            as for python3 -m.
  --signals-to-handle NAMES=SIGTERM,SIGINT
                            Signals that end the run.
  --nproc-per-node N        Workers on this node.
Files:
  --a-flag-of-this-wid TEXT Its column is full.
  --log-dir DIR             Folder of log files.

.Text that starts with a dot
and goes on.

Examples:
  distrun launch a.py
  distrun launch b.py
"""


class MakeManualTest(unittest.TestCase):
    def page(self, text=HELP):
        return make_manual.page_of(["launch"], text, "1.2", ["distrun", "distrun-test"])

    def test_EachGroupOfFlagsIsASection(self):
        self.assertEqual(
            re.findall(r"^\.SH (.*)$", self.page(), re.MULTILINE),
            ["NAME", "SYNOPSIS", "DESCRIPTION", "WORKERS", "FILES", "EXAMPLES", "SEE ALSO"],
        )

    def test_FlagsAreEntriesWithTheirWholeText(self):
        page = self.page()
        self.assertIn(".TP\n.B \\-m, \\-\\-module\nPROGRAM is a module, as for python3 \\-m.\n", page)
        self.assertIn(".B \\-\\-signals\\-to\\-handle NAMES=SIGTERM,SIGINT\nSignals that end the run.\n.TP", page)

    def test_ANameThatFillsItsColumnEndsThere(self):
        self.assertIn(".B \\-\\-a\\-flag\\-of\\-this\\-wid TEXT\nIts column is full.\n", self.page())

    def test_ExamplesKeepTheirLines(self):
        self.assertIn(".nf\n  distrun launch a.py\n  distrun launch b.py\n.fi\n", self.page())

    def test_TextIsNotTakenForARequest(self):
        self.assertIn(".PP\n\\&.Text that starts with a dot\nand goes on.\n", self.page())

    def test_CommandsAreFoundUnderEitherTitle(self):
        for title in "Commands", "Subcommands":
            text = f"Text.\nUsage: x\n\n{title}:\n  get            Get.\n  compare-set    Set.\n"
            self.assertEqual(make_manual.commands_of(text), ["get", "compare-set"])

    def test_ThePagesOfDistrunHaveEachOfItsFlags(self):
        with tempfile.TemporaryDirectory() as name:
            make_manual.main(DISTRUN, name)
            pages = {path.stem: path.read_text(encoding="utf-8").replace("\\-", "-") for path in Path(name).iterdir()}
        for page in "distrun", "distrun-launch", "distrun-store", "distrun-store-compare-set", "distrun-test":
            self.assertIn(page, pages)
        commands = {"distrun-store-compare-set": ["store", "compare-set"]}
        for page, text in pages.items():
            words = commands.get(page, page.split("-")[1:])
            told = subprocess.run([DISTRUN, *words, "--help"], check=True, capture_output=True, text=True).stdout
            for flag in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", told, re.MULTILINE):
                self.assertRegex(text, rf"(?m)^\.B (-\w, )?{flag}\b")


if __name__ == "__main__":
    DISTRUN = sys.argv.pop(1)
    unittest.main()
