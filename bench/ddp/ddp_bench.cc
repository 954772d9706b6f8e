// Compares our DistributedDataParallel with Python's: bench/README.md says how to read what it
// prints.  This starts a run with two ranks of each; ddp_ranks.cc measures and prints.
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using Words = std::vector<std::string>;

// Ranks 0 and 1 are Python's.
constexpr const char* kRank = R"(
python=$1 ours=$2 pythons=$3
shift 3
case $RANK in
  0 | 1) exec "$python" "$pythons" "$@" ;;
  *) exec "$ours" "$@" ;;
esac)";

struct Options {
  bool quick = false;
  int rounds = 6;
  int steps = 4;
  Words shapes = {"256x4", "1024x25"};
  std::string python = TORCH_PYTHON;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Compares DistributedDataParallel with Python's: see bench/README.md.");
  app.add_flag("--quick", options.quick, "two rounds of a small model: for a first look");
  app.add_option("--rounds", options.rounds, "turns of each; the first is not counted")
      ->check(CLI::Range(2, 10000))
      ->capture_default_str();
  app.add_option("--steps", options.steps, "steps in a turn")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--shapes", options.shapes, "models, WIDTHxLAYERS each")->delimiter(',');
  app.add_option("--python", options.python, "a Python that has torch")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (options.quick) options.rounds = 2, options.shapes = {"256x4"};
  return options;
}

Words command(const Options& options) {
  Words words = {DISTRUN_PROGRAM,
                 "launch",
                 "--nproc-per-node",
                 "4",
                 "sh",
                 "-c",
                 kRank,
                 "sh",
                 options.python,
                 DDP_RANKS,
                 DDP_RANKS_PY,
                 std::to_string(options.rounds),
                 std::to_string(options.steps)};
  words.insert(words.end(), options.shapes.begin(), options.shapes.end());
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.python.empty()) {
    fmt::print(stderr, "ddp_bench: there is no Python with torch to compare with: give --python\n");
    return 1;
  }
  const Words words = command(options);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  fmt::print(stderr, "ddp_bench: cannot execute {}\n", words[0]);
  return 1;
}
