#!/usr/bin/env python3
"""The Conan recipe exports every folder that its build reads; needs no Conan."""

import ast
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_BUILT = {"bench", "examples"}  # The recipe sets DISTRUN_BUILD_BENCH and DISTRUN_BUILD_EXAMPLES to OFF.


def strings_of(function: str) -> set[str]:
    recipe = ast.parse((ROOT / "packaging/conan/conanfile.py").read_text(encoding="utf-8"))
    body = next(node for node in ast.walk(recipe) if isinstance(node, ast.FunctionDef) and node.name == function)
    return {node.value for node in ast.walk(body) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


class ConanRecipe(unittest.TestCase):
    def test_every_folder_that_is_built_is_exported(self):
        cmake = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        built = set(re.findall(r"^ *add_subdirectory\((\w+)", cmake, re.MULTILINE)) - NOT_BUILT
        self.assertIn("common", built)
        needed = built | {"CMakeLists.txt", "LICENSE", "cmake", "include", "packaging"}
        self.assertEqual(needed - strings_of("export_sources"), set())

    def test_every_folder_that_is_exported_exists(self):
        for name in strings_of("export_sources") - {"..", "/*", "*/__pycache__/*"}:
            self.assertTrue((ROOT / name).exists(), name)

    def test_folders_that_are_not_exported_are_not_built(self):
        self.assertLessEqual({folder.upper() for folder in NOT_BUILT}, strings_of("generate"))


if __name__ == "__main__":
    unittest.main()
