"""Tests the include rule: the tree obeys it, and violations are found."""

import unittest

import check_includes
from check_includes import Tree


class IncludeRule(unittest.TestCase):
    def setUp(self):
        self.tree = Tree(["common/rank.h", "common/os/proc.h", "store/protocol/wire.h", "launcher/process/guard.h", "launcher/plan/plan.h",
                          "launcher/run/driver.h", "launcher/test/terminal.h", "include/distrun/result.h", "backends/group/group_state.h",
                          "testsuites/testing/registry.h"])
        self.tree.public = {"result.h": "common"}

    def problem(self, file, target, quoted=True):
        return self.tree.problem_with(file, quoted, target)

    def test_the_tree_keeps_the_rule(self):
        self.assertEqual(check_includes.main([]), 0)

    def test_an_include_of_a_higher_folder_points_up(self):
        self.assertIn("points up", self.problem("store/table/table.cc", "launcher/plan/plan.h"))
        self.assertEqual(self.problem("launcher/plan/plan.cc", "common/rank.h"), "")

    def test_an_include_of_a_higher_room_points_up(self):
        self.assertIn("points up", self.problem("launcher/plan/plan.cc", "launcher/run/driver.h"))
        self.assertIn("points up", self.problem("common/text/printable.h", "common/os/proc.h"))
        self.assertEqual(self.problem("launcher/run/driver.cc", "launcher/plan/plan.h"), "")

    def test_a_test_may_use_its_whole_folder_but_no_higher_one(self):
        self.assertEqual(self.problem("launcher/plan/plan_test.cc", "launcher/run/driver.h"), "")
        self.assertIn("points up", self.problem("launcher/plan/plan_test.cc", "backends/group/group_state.h"))

    def test_a_public_header_includes_public_ones_only(self):
        self.assertIn("not public", self.problem("include/distrun/result.h", "common/rank.h"))

    def test_libtorch_stays_out_of_what_distrun_links(self):
        self.assertIn("LibTorch", self.problem("launcher/run/driver.cc", "ATen/core/Tensor.h", quoted=False))
        self.assertEqual(self.problem("backends/group/group.cc", "ATen/core/Tensor.h", quoted=False), "")
        self.assertIn("all that distrun links", self.problem("cli/main.cc", "testsuites/testing/registry.h"))

    def test_helpers_of_tests_are_for_tests(self):
        self.assertIn("for tests only", self.problem("launcher/run/driver.cc", "launcher/test/terminal.h"))
        self.assertEqual(self.problem("cli/launch_test.cc", "launcher/test/terminal.h"), "")

    def test_brackets_hide_nothing(self):
        self.assertIn("points up", self.problem("launcher/plan/plan.cc", "launcher/run/driver.h", quoted=False))
        self.assertIn("not public", self.problem("include/distrun/result.h", "common/rank.h", quoted=False))
        self.assertEqual(self.problem("launcher/plan/plan.cc", "sys/types.h", quoted=False), "")

    def test_an_include_of_a_sibling_points_sideways(self):
        tree = Tree(["backends/gloo/gloo.h"])
        self.assertIn("sideways", tree.problem_with("backends/fake/fake_backend.h", True, "backends/gloo/gloo.h"))

    def test_an_include_that_is_not_from_the_root_is_found(self):
        self.assertIn("neither", self.problem("launcher/run/driver.cc", "plan.h"))


if __name__ == "__main__":
    unittest.main()
