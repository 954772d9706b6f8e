"""The tests of a Python file, as unittest finds them, and how many ranks each has."""
import inspect
import os
import re
import sys
import types
import unittest

COMMON_DISTRIBUTED = "torch.testing._internal.common_distributed"


RANKS_MAX = 4096  # As in distrun/test_info.h.
MAY_DIFFER = "distrun_collectives_may_differ"  # An attribute of a test or a class.


def id_of(suite, case, name):
    return ".".join((suite, case.replace(".", "_"), re.sub(r"\s", "_", name)))


class Test:
    """A test method of a class."""

    def __init__(self, suite, case, name):
        self.id = id_of(suite, case.__qualname__, name)
        self.case, self.name = case, name
        self.has_processes = _is_multi_process(case)
        method = inspect.unwrap(getattr(case, name))
        self.is_skipped = any(getattr(one, "__unittest_skip__", False) for one in (case, getattr(case, name)))
        code = getattr(method, "__code__", None)
        self.file, self.line = (code.co_filename, code.co_firstlineno) if code else ("", 0)
        self.collectives_may_differ = any(getattr(one, MAY_DIFFER, False) is True for one in (case, getattr(case, name)))
        self.problem = ""
        self.ranks = self._find_ranks()

    def _find_ranks(self):
        if not self.has_processes or self.is_skipped:
            return 1
        try:
            size = max(int(self.case(self.name).world_size), 1)
            if size <= RANKS_MAX:
                return size
            self.problem = f"world_size of {self.case.__qualname__} is {size}; distrun test runs at most {RANKS_MAX} ranks"
            return 1
        except Exception as error:  # The test then fails, not the list.
            self.problem = f"world_size of {self.case.__qualname__}: {type(error).__name__}: {error}"
            return 1

    def facts(self):
        return {"id": self.id, "ranks": self.ranks, "collectives_may_differ": self.collectives_may_differ,
                "file": self.file, "line": self.line}


def _is_multi_process(case):
    common = sys.modules.get(COMMON_DISTRIBUTED)
    return common is not None and issubclass(case, common.MultiProcessTestCase)


def test_skips():
    """{exit code: reason}, from PyTorch."""
    common = sys.modules.get(COMMON_DISTRIBUTED)
    return {skip.exit_code: skip.message for skip in common.TEST_SKIPS.values()} if common else {}


def load(path):
    """Imports the file under the name that it has in PyTorch's own ranks, so that it does not call unittest.main()."""
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    sys.modules["__main__"] = sys.modules["__mp_main__"] = module
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    try:
        exec(code, module.__dict__)
    except SystemExit as exit:  # "not available, skipping tests"
        if exit.code not in (None, 0):
            raise
    return module


def find_tests(module, path):
    suite = re.sub(r"[.\s]", "_", os.path.splitext(os.path.basename(path))[0])
    names = unittest.TestLoader().getTestCaseNames
    cases = {}  # And the first variable that names each.
    for variable, one in vars(module).items():
        if isinstance(one, type) and issubclass(one, unittest.TestCase):
            cases.setdefault(one, variable)
    tests = {}
    for case, variable in cases.items():
        for name in names(case):
            test = Test(suite, case, name)
            if test.id in tests:  # Classes of the same name, from a function that makes them.
                test.id = id_of(suite, variable, name)
            copy, number = test.id, 1
            while test.id in tests:
                number += 1
                test.id = f"{copy}_{number}"
            tests[test.id] = test
    return tests
