// The tests of fake_test_host.cc: their ranks misbehave, each test's as its name says.
#pragma once

#include <string>

namespace distrun::fake {

// As a test host tells it: "fake.Rank.passes", …
std::string test_list();

// Runs a rank of that test, which tells of itself through the descriptor `result`.
[[noreturn]] void run_rank(const std::string& id, int result);

[[noreturn]] void wait_for_ever();

// Places are shared by all who have the same FAKE_FOLDER.  Until the test, or another process, lets
// one go:
void wait_at(const std::string& place);
void let_one_go(const std::string& place);

// Whether this process is the first to come there.
bool is_first_at(const std::string& place);

}  // namespace distrun::fake
