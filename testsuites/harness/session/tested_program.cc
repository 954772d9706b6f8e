#include "testsuites/harness/session/tested_program.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>

#include <unistd.h>

#include "common/text/parse_number.h"
#include "testsuites/harness/host/test_host.h"
#include "testsuites/harness/protocol/where_signal.h"

namespace distrun {

namespace {

// In an id, a dot separates the parts.
std::string part_of_id(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c == '.' || c <= ' ' || c == 0x7f; },
      '_');
  return text;
}

}  // namespace

TestInfo test_info_of(const TestedProgram& test) {
  const std::string& program = test.command.front();
  const std::string suite = part_of_id(program.substr(program.rfind('/') + 1));
  return {.id = suite + ".Program.main", .needs = {.ranks = test.ranks}};
}

std::vector<std::string> host_of(const TestedProgram& test) {
  std::vector<std::string> command = {"/proc/self/exe", kProgramHostCommand,
                                      std::to_string(test.ranks)};
  command.insert(command.end(), test.command.begin(), test.command.end());
  return command;
}

namespace {

// Variables of an outer run, which would make the ranks meet, record or fail there.
void forget_outer_run() {
  for (const char* name :
       {"DISTRUN_INIT_METHOD", "DISTRUN_OPERATIONS", "DISTRUN_DIGEST", "DISTRUN_COLLECTIVES",
        "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}) {
    ::unsetenv(name);
  }
}

}  // namespace

void serve_tested_program(const std::vector<std::string>& words) {
  const auto ranks = parse_number<int>(words.empty() ? "" : words.front());
  if (!ranks || words.size() < 2) ::_exit(2);
  forget_outer_run();
  const TestedProgram test{.command = {words.begin() + 1, words.end()}, .ranks = *ranks};
  serve_tests(STDIN_FILENO,
              {.tests = {test_info_of(test)},
               .what_forbids = [](const ForkRank&) { return std::nullopt; },
               .run_rank =
                   [&](const ForkRank& fork, UniqueFd) {
                     // Ignored signals would stay ignored in the program.
                     for (const int signal : {where_signal(), collective_signal(), SIGTTOU})
                       ::signal(signal, SIG_DFL);
                     execute_in_rank(fork, test.command);
                   }});
}

}  // namespace distrun
