"""Tests check_docs.py: wrong links, flags, lengths and outputs are found, and right ones are not."""

import os
import tempfile
import unittest
from pathlib import Path

import check_docs

HELP = {
    (): "Usage: distrun COMMAND\n\nSubcommands:\n  launch    Start workers.\n  store     The store.\n",
    ("launch",): "Workers:\n  -m, --module    A module.\n  --nproc-per-node N  Workers.\n",
    ("store",): "Subcommands:\n  get      Print a value.\n",
    ("store", "get"): "Options:\n  -h, --help  Help\n  --raw       Keys as on the wire.\n",
}


class Text(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()
        self.write("docs/torchrun.md", "`--module` and `--nproc-per-node`\n")
        self.write("docs/store.md", "# The store\n\n`--raw`\n")

    def write(self, page, text):
        (self.root / page).write_text(text)

    def problems(self, page, text):
        self.write(page, text)
        return list(check_docs.text_problems(self.root, [page], check_docs.Help(HELP.__getitem__)))

    def test_a_good_page_has_no_problem(self):
        self.assertEqual(self.problems("a.md", "# A\n\n[store](docs/store.md#the-store), `--raw`, [a](#a), [x](https://x.org)\n"), [])

    def test_a_link_to_a_missing_file_is_found(self):
        self.assertEqual(self.problems("a.md", "[b](b.md)\n"), ["a.md:1: b.md does not exist"])
        self.assertEqual(self.problems("a.md", '<img src="b.svg">\n'), ["a.md:1: b.svg does not exist"])

    def test_a_link_to_a_missing_heading_is_found(self):
        self.assertEqual(self.problems("a.md", "[b](docs/store.md#b)\n"), ["a.md:1: docs/store.md has no heading #b"])

    def test_headings_have_the_anchors_of_github(self):
        self.assertEqual(check_docs.slug("Groups: [`<distrun/group.h>`](group.h)"), "groups-distrungrouph")

    def test_a_flag_that_no_command_has_is_found_in_code(self):
        self.assertEqual(self.problems("a.md", "a `--rwa` b\n"), ["a.md:1: there is no flag --rwa"])
        self.assertEqual(self.problems("a.md", "```sh\ndistrun --rwa\n```\n"), ["a.md:2: there is no flag --rwa"])
        self.assertEqual(self.problems("a.md", "text -- and --rwa is no code\n"), [])

    def test_the_page_of_errors_may_quote_wrong_flags(self):
        self.assertEqual(self.problems("docs/errors.md", "`there is no flag --rwa`\n"), [])

    def test_an_undocumented_flag_is_found(self):
        self.assertEqual(self.problems("docs/store.md", "# Empty\n"), ["docs/store.md: --raw of distrun store get is not documented"])

    def test_long_paragraphs_items_and_lines_are_found(self):
        self.assertEqual(self.problems("a.md", "a\n" * 5 + "\n- b\n  c\n\n| table |\n" + "```\n" + "code\n" * 9 + "```\n"), [])
        self.assertEqual(self.problems("a.md", "a\n" * 6), ["a.md:1: paragraph of 6 lines, at most 5"])
        self.assertEqual(self.problems("a.md", "a\n\n- b\n  c\n  d\n"), ["a.md:3: list item of 3 lines, at most 2"])
        self.assertEqual(self.problems("a.md", "a" * 161), ["a.md:1: 161 characters, at most 160"])


class Tutorial(unittest.TestCase):
    def problems(self, text):
        return list(check_docs.page_problems("t.md", text, dict(os.environ), timeout=20))

    def test_commands_run_in_order_in_one_shell_and_folder(self):
        self.assertEqual(self.problems("Save this as `a.txt`:\n\n```text\none\n```\n\n```sh\nx=$(cat a.txt)\n```\n\n"
                                       "```sh\necho $x; test -t 1 && echo tty\n```\n\n```text\none\ntty\n```\n"), [])

    def test_a_console_block_is_not_run(self):
        self.assertEqual(self.problems("```console\n$ false\n```\n"), [])

    def test_a_command_that_fails_is_named_with_its_output(self):
        problems = self.problems("```sh\necho hello; exit 3\n```\n\n```sh\ntrue\n```\n")
        self.assertEqual(problems, ["t.md:2: failed with status 3; its output:\n    hello"])

    def test_other_output_than_shown_is_found(self):
        problems = self.problems("```sh\necho hello\n```\n\n```text\nhallo\n```\n")
        self.assertEqual(problems, ["t.md:6: the output is not as shown; it is:\n    hello"])

    def test_a_page_that_hangs_times_out(self):
        problems = list(check_docs.page_problems("t.md", "```sh\nsleep 60\n```\n", dict(os.environ), timeout=0.5))
        self.assertEqual(problems, ["t.md:2: timed out; its output:"])

    def test_dots_stand_for_anything(self):
        self.assertTrue(check_docs.same_in_order(["after … s", "…", "end"], ["after 3 s", "a", "b", "end"]))
        self.assertFalse(check_docs.same_in_order(["after … s", "end"], ["after 3 s", "a", "end"]))
        self.assertTrue(check_docs.same_in_any_order(["b", "a"], ["a", "b"]))
        self.assertFalse(check_docs.same_in_any_order(["b", "a"], ["a", "b", "c"]))
        self.assertTrue(check_docs.same_in_any_order(["b", "…"], ["a", "b", "c"]))


if __name__ == "__main__":
    unittest.main()
