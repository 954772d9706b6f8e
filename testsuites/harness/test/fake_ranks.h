// The tests of fake_test_host.cc, whose ranks misbehave as their names say.
#pragma once

#include <string>

namespace distrun::fake {

// The list that a test host sends: "fake.Rank.passes", …
std::string test_list();

// Runs a rank of that test, which reports through the descriptor `result`.
[[noreturn]] void run_rank(const std::string& id, int result);

[[noreturn]] void wait_for_ever();

// Waits until another process with the same FAKE_FOLDER calls let_one_go().
void wait_at(const std::string& place);
void let_one_go(const std::string& place);

// Whether this process reaches the place first.
bool is_first_at(const std::string& place);

}  // namespace distrun::fake
