#include "distrun/testing/throws.h"

#include <cstdlib>
#include <regex>
#include <typeinfo>

#include <c10/util/Exception.h>
#include <c10/util/Type.h>
#include <cxxabi.h>
#include <fmt/format.h>
#include <pthread.h>

#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/testing/deadline.h"
#include "testsuites/testing/run_rank.h"

namespace distrun::internal {

namespace {

std::string text_of(const std::exception& thrown) {
  const auto* error = dynamic_cast<const c10::Error*>(&thrown);
  return error == nullptr ? thrown.what() : error->what_without_backtrace();
}

std::string text_with_type(const std::exception& thrown) {
  return c10::demangle(typeid(thrown).name()) + ": " + text_of(thrown);
}

::testing::AssertionResult failure(const ThrowExpectation& expectation,
                                   const std::string& instead) {
  return ::testing::AssertionFailure()
         << expectation.statement << " must throw " << expectation.type << " matching \""
         << expectation.regex << "\"\n"
         << instead;
}

}  // namespace

::testing::AssertionResult judge_thrown(const ThrowExpectation& expectation,
                                        const std::exception& thrown) {
  try {
    if (std::regex_search(text_of(thrown), std::regex(expectation.regex))) {
      return ::testing::AssertionSuccess();
    }
  } catch (const std::regex_error& error) {
    return failure(expectation, std::string("invalid regular expression: ") + error.what());
  }
  return failure(expectation, "its text does not match: " + text_with_type(thrown));
}

::testing::AssertionResult judge_other(const ThrowExpectation& expectation) {
  try {
    throw;
  } catch (const std::exception& thrown) {
    return failure(expectation, "it threw " + text_with_type(thrown));
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return failure(expectation,
                   "it threw a " + (type ? c10::demangle(type->name()) : "foreign exception"));
  }
}

::testing::AssertionResult judge_nothing(const ThrowExpectation& expectation) {
  return failure(expectation, "it threw nothing");
}

void call_within(const TimeBound& bound, const ThrowExpectation& expectation,
                 const std::function<void()>& statement) {
  if (std::getenv(kTestDebuggedVariable) != nullptr) return statement();
  const Deadline deadline(bound.time, [&, caller = ::pthread_self()] {
    fail_rank({.file = bound.file,
               .line = bound.line,
               .message = fmt::format(
                   "{} has not returned within {} s; it must throw {} matching \"{}\"",
                   expectation.statement, std::chrono::duration<double>(bound.time).count(),
                   expectation.type, expectation.regex)},
              caller);
  });
  statement();
}

}  // namespace distrun::internal
