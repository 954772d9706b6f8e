"""Tests the filter between the public headers and Doxygen."""

import os
import subprocess
import sys
import unittest

from doxygen_filter import Filter

HEADER = ["// What it is.", "#pragma once", "namespace distrun {", "BODY", "}"]


def filtered(*body):
    lines = [line for part in HEADER for line in (body if part == "BODY" else [part])]
    return Filter("distrun/thing.h", lines).run()[3 : 3 + len(body)]


class DoxygenFilter(unittest.TestCase):
    def test_every_public_header_keeps_its_lines(self):
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        headers = subprocess.run(["find", "include", "-name", "*.h"], cwd=root, capture_output=True, text=True, check=True).stdout.split()
        self.assertGreater(len(headers), 40)
        for header in headers:
            with open(os.path.join(root, header), encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(Filter(header, lines).run()), len(lines), header)

    def test_a_comment_documents_the_declaration_below(self):
        self.assertEqual(filtered("// Says hello.", "void hello();"), ["/// Says hello.", "void hello();"])

    def test_a_comment_behind_a_member_documents_it(self):
        self.assertEqual(filtered("struct A {", "  int port = 0;  // The port.", "};"), ["struct A {", "  int port = 0;  ///< The port.", "};"])

    def test_a_function_below_another_shares_its_comment_if_it_is_an_overload(self):
        self.assertIn("/** Says hello. */", filtered("// Says hello.", "void hello();", "void hello(int times);")[2])
        self.assertEqual(filtered("// Says hello.", "void hello();", "void goodbye();")[2], "void goodbye();")

    def test_data_members_share_a_comment(self):
        self.assertIn("/** Sizes. */", filtered("struct A {", "  // Sizes.", "  int width = 0;", "  int height = 0;", "};")[3])
        self.assertNotIn("/**", filtered("struct A {", "  // Sizes.", "  int width = 0;", "", "  int height = 0;", "};")[4])

    def test_data_members_of_one_declaration_share_a_comment(self):
        self.assertEqual(filtered("struct A {", "  // Sizes.", "  int a = 0, b = 1;", "};")[2], "  int a = 0; /** Sizes. */  int b = 1;")
        self.assertEqual(filtered("struct A {", "  int a, b;  // Sizes.", "};")[1], "/** Sizes. */  int a; /** Sizes. */  int b;")

    def test_a_contract_is_a_section(self):
        self.assertEqual(filtered("// Waits.", "// Throws: c10::Error.", "void wait();")[1], r"/// \contract{Throws} c10::Error.")

    def test_a_contract_out_of_order_is_an_unknown_command(self):
        self.assertIn("contract_out_of_order", filtered("// Waits.", "// Throws: e.", "// Blocks: no.", "void wait();")[2])

    def test_a_contract_within_a_line_is_an_unknown_command(self):
        self.assertIn("must_start_its_line", filtered("// Waits. Throws: e.", "void wait();")[0])
        self.assertIn("must_start_its_line", filtered("// Blocks: no. Throws: e.", "void wait();")[0])

    def test_indented_lines_are_code(self):
        self.assertEqual(filtered("// Example:", "//", "//     f<int>();", "//", "// Done.", "void f();")[:5],
                         ["/// Example:", r"/// \code{.cpp}", "/// f<int>();", r"/// \endcode", "/// Done."])

    def test_markup_in_text_is_escaped(self):
        self.assertEqual(filtered("// A vector<int>, a #, _exit() and `a_b*`.", "void f();")[0], r"/// A vector\<int\>, a \#, \_exit() and `a_b*`.")

    def test_a_comment_in_a_body_documents_nothing(self):
        self.assertEqual(filtered("void f() {", "  // Why.", "  g();  // Because.", "}"), ["void f() {", "", "  g();  ", "}"])

    def test_a_body_ends_its_declaration(self):
        for head in ("void f(int a = 1, A b = {})", "A() : a{1}, b(2)", "int f(A a) const"):
            shown = filtered("// Does.", head + " {", "  a();", "}", "", "// Does more.", "void g();")
            self.assertEqual(shown[5], "/// Does more.", head)

    def test_the_namespace_internal_is_hidden(self):
        shown = filtered("namespace internal {", "// A detail.", "void f();", "}  // namespace internal")
        self.assertIn("cond", shown[0])
        self.assertEqual(shown[1], "")
        self.assertIn("endcond", shown[3])

    def test_copies_and_destructors_without_a_comment_are_left_out(self):
        self.assertEqual(filtered("class A {", "  ~A();", "  A(const A&) = delete;", "};")[1:3], ["", ""])
        self.assertEqual(filtered("class A {", "  // Waits.", "  ~A();", "};")[2], "  ~A();")

    def test_a_header_without_a_preamble_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected a comment"):
            Filter("distrun/a.h", ["#pragma once"]).run()

    def test_the_preamble_documents_the_class_that_it_begins_with(self):
        shown = Filter("distrun/a.h", ["// Thing is one.", "#pragma once", "class Thing {", "};"]).run()
        self.assertEqual(shown[0], r"/// \class distrun::Thing distrun/a.h <distrun/a.h> Thing is one.")


if __name__ == "__main__":
    sys.exit(unittest.main())
