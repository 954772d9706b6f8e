#include "testsuites/harness/protocol/test_list_json.h"

#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

TestInfo every_field() {
  return {.id = "gloo.CommTest.test_sum",
          .needs = {.ranks = 4,
                    .ranks_max = 8,
                    .min_gpus = 2,
                    .backends = {"gloo", "nccl"},
                    .timeout = std::chrono::milliseconds(1500),
                    .exclusive = true,
                    .collectives_may_differ = true,
                    .expected_ends = {{1, KilledBy{SIGKILL}}, {3, ExitedWith{5}}}},
          .file = "suites/comm.cc",
          .line = 12};
}

std::string list_problem(const std::string& json) {
  const auto tests = parse_test_list(json);
  return tests ? "none" : tests.error().message;
}

// The problem of a test with one more field.
std::string problem_of(const std::string& field) {
  return list_problem(R"({"tests": [{"id": "s.C.t", )" + field + "}]}");
}

TEST(TestListJsonTest, WritesEveryField) {
  EXPECT_EQ(test_list_json({every_field()}), R"({
 "tests": [
  {
   "id": "gloo.CommTest.test_sum",
   "ranks": 4,
   "ranks_max": 8,
   "min_gpus": 2,
   "backends": [
    "gloo",
    "nccl"
   ],
   "timeout_ms": 1500,
   "exclusive": true,
   "collectives_may_differ": true,
   "expected_ends": {
    "1": {
     "signal": 9
    },
    "3": {
     "exit_code": 5
    }
   },
   "file": "suites/comm.cc",
   "line": 12
  }
 ]
}
)");
  EXPECT_EQ(test_list_json({}), "{\n \"tests\": []\n}\n");
}

TEST(TestListJsonTest, ReadsWhatItWrites) {
  const auto tests = parse_test_list(test_list_json({every_field(), {.id = "a.B.c"}})).value();
  ASSERT_EQ(tests.size(), 2U);
  const TestInfo wanted = every_field();
  EXPECT_EQ(tests[0].id, wanted.id);
  EXPECT_EQ(tests[0].needs.ranks, wanted.needs.ranks);
  EXPECT_EQ(tests[0].needs.ranks_max, wanted.needs.ranks_max);
  EXPECT_EQ(tests[0].needs.min_gpus, wanted.needs.min_gpus);
  EXPECT_EQ(tests[0].needs.backends, wanted.needs.backends);
  EXPECT_EQ(tests[0].needs.timeout, wanted.needs.timeout);
  EXPECT_EQ(tests[0].needs.exclusive, wanted.needs.exclusive);
  EXPECT_EQ(tests[0].needs.collectives_may_differ, wanted.needs.collectives_may_differ);
  EXPECT_EQ(tests[0].needs.expected_ends, wanted.needs.expected_ends);
  EXPECT_EQ(tests[0].file, wanted.file);
  EXPECT_EQ(tests[0].line, wanted.line);
  EXPECT_EQ(tests[1].id, "a.B.c");
  EXPECT_EQ(tests[1].needs.timeout, std::nullopt);
}

TEST(TestListJsonTest, RequiresOnlyAnIdAndIgnoresUnknownFields) {
  const auto tests =
      parse_test_list(R"({"made_by": 7, "tests": [{"id": "s.C.t", "new": []}]})").value();
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].needs.ranks, 1);
  EXPECT_EQ(tests[0].needs.backends, std::vector<std::string>{"gloo"});
}

TEST(TestListJsonTest, ReplacesInvalidUtf8) {
  EXPECT_NE(test_list_json({{.id = "s.C.t", .file = "\xFF.cc"}}).find("\uFFFD.cc"),
            std::string::npos);
}

TEST(TestListJsonTest, RejectsMalformedLists) {
  EXPECT_EQ(list_problem("{\"tests\": ["), "the list of tests is not JSON (is it truncated?)");
  EXPECT_EQ(list_problem(""), "the list of tests is not JSON (is it truncated?)");
  EXPECT_EQ(list_problem("[]"), "the list of tests has no \"tests\"");
  EXPECT_EQ(list_problem("{}"), "the list of tests has no \"tests\"");
  EXPECT_EQ(list_problem("{\"tests\": {}}"), "the list of tests has no \"tests\"");
  EXPECT_EQ(parse_test_list("{}").error().kind, ErrorKind::kProtocol);
}

TEST(TestListJsonTest, ErrorsNameTheTestAndTheField) {
  EXPECT_EQ(list_problem(R"({"tests": [{"id": "s.C.t"}, 7]})"), "test 2: not an object");
  EXPECT_EQ(list_problem(R"({"tests": [{"id": "s.C.t"}, {"ranks": 2}]})"),
            "test 2: \"id\": not of the form suite.Class.test");
  EXPECT_EQ(list_problem(R"({"tests": [{"id": 7}]})"), "test 1: \"id\": not a string");
  EXPECT_EQ(list_problem(R"({"tests": [{"id": "s.C.t"}, {"id": "s.C.t"}]})"),
            "test s.C.t: listed twice");
  EXPECT_EQ(problem_of(R"("ranks": 0)"), "test s.C.t: \"ranks\": 0 is less than 1");
  EXPECT_EQ(problem_of(R"("ranks": 4096, "ranks_max": 4096)"), "none");
  EXPECT_EQ(problem_of(R"("ranks": 4097)"), "test s.C.t: \"ranks\": 4097 is more than 4096");
  EXPECT_EQ(problem_of(R"("ranks_max": 4097)"),
            "test s.C.t: \"ranks_max\": 4097 is more than 4096");
  EXPECT_EQ(problem_of(R"("ranks": 4, "ranks_max": 2)"),
            "test s.C.t: \"ranks_max\": 2 is less than \"ranks\", 4");
  EXPECT_EQ(problem_of(R"("ranks": "2")"),
            "test s.C.t: \"ranks\": not a whole number, or too large");
  EXPECT_EQ(problem_of(R"("min_gpus": 3000000000)"),
            "test s.C.t: \"min_gpus\": not a whole number, or too large");
  EXPECT_EQ(problem_of(R"("ranks_max": -1)"), "test s.C.t: \"ranks_max\": -1 is less than 0");
  EXPECT_EQ(problem_of(R"("timeout_ms": 0)"), "test s.C.t: \"timeout_ms\": 0 is less than 1");
  EXPECT_EQ(problem_of(R"("timeout_ms": 1000000000001)"),
            "test s.C.t: \"timeout_ms\": 1000000000001 is more than 1000000000000");
  EXPECT_EQ(problem_of(R"("timeout_ms": null)"), "none");
  EXPECT_EQ(problem_of(R"("timeout_ms": 1.5)"),
            "test s.C.t: \"timeout_ms\": not a whole number, or too large");
  EXPECT_EQ(problem_of(R"("exclusive": 1)"), "test s.C.t: \"exclusive\": not true or false");
  EXPECT_EQ(problem_of(R"("backends": [])"), "test s.C.t: \"backends\": not a list of names");
  EXPECT_EQ(problem_of(R"("backends": [1])"), "test s.C.t: \"backends\": not a list of names");
  EXPECT_EQ(problem_of(R"("backends": "gloo")"), "test s.C.t: \"backends\": not a list of names");
  EXPECT_EQ(problem_of(R"("file": null)"), "test s.C.t: \"file\": not a string");
}

TEST(TestListJsonTest, AnIdHasThreePartsWithoutSpaces) {
  for (const char* id : {"", "s", "s.C", "s.C.", "s..t", ".C.t", "s.C.a b", "s.C.a\\n"}) {
    EXPECT_NE(list_problem(fmt::format(R"({{"tests": [{{"id": "{}"}}]}})", id))
                  .find("not of the form suite.Class.test"),
              std::string::npos)
        << id;
  }
}

TEST(TestListJsonTest, AnExpectedEndNamesARankAndOneKind) {
  EXPECT_EQ(problem_of(R"("ranks": 2, "expected_ends": {"1": {"signal": 9}})"), "none");
  EXPECT_EQ(problem_of(R"("ranks_max": 2, "expected_ends": {"1": {"signal": 9}})"), "none");
  EXPECT_EQ(problem_of(R"("ranks": 2, "expected_ends": {"2": {"signal": 9}})"),
            "test s.C.t: \"expected_ends\": rank 2 is not between 0 and 1");
  EXPECT_EQ(problem_of(R"("expected_ends": {"x": {"signal": 9}})"),
            "test s.C.t: \"expected_ends\": rank 'x' is not a whole number");
  const std::string either =
      "test s.C.t: \"expected_ends\": an end is either a \"signal\" or an \"exit_code\"";
  EXPECT_EQ(problem_of(R"("expected_ends": {"0": {}})"), either);
  EXPECT_EQ(problem_of(R"("expected_ends": {"0": 9})"), either);
  EXPECT_EQ(problem_of(R"("expected_ends": {"0": {"signal": 9, "exit_code": 1}})"), either);
  EXPECT_EQ(problem_of(R"("expected_ends": {"0": {"signal": 0}})"),
            "test s.C.t: \"signal\": 0 is less than 1");
  EXPECT_EQ(problem_of(R"("expected_ends": [])"), "test s.C.t: \"expected_ends\": not an object");
}

}  // namespace
}  // namespace distrun
