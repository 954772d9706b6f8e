// Compares our DistributedDataParallel with Python's, with itself under --digest or on another
// backend, or with training without it (see bench/README.md). Starts a run with two ranks of each;
// ddp_ranks.cc measures and prints.
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using Words = std::vector<std::string>;

// Ranks 0 and 1 are Python's, 2 and 3 ours.
constexpr const char* kAgainstPython = R"(
python=$1 ours=$2 pythons=$3
shift 3
case $RANK in
  0 | 1) exec "$python" "$pythons" "$@" ;;
  *) exec "$ours" "$@" ;;
esac)";

// Ranks 0 and 1 compute digests.
constexpr const char* kAgainstDigest = R"(
case $RANK in
  0 | 1) exec "$@" ;;
  *) unset DISTRUN_DIGEST && exec "$@" ;;
esac)";

constexpr const char* kQuick =
    "4 rounds, to see that it runs: a large model's ratio needs 25 to settle";

struct Options {
  bool quick = false;
  int rounds = 16;
  Words shapes = {"256x4x40", "1024x25x4"};
  std::string against = "python";
  std::string backend = "gloo";
  bool views = false;
  std::string python = TORCH_PYTHON;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Compares DistributedDataParallel with Python's, or with itself: see bench/README.md.");
  app.add_flag("--quick", options.quick, kQuick);
  app.add_option("--rounds", options.rounds, "turns of each; the first is not counted")
      ->check(CLI::Range(2, 10000))
      ->capture_default_str();
  app.add_option("--shapes", options.shapes, "models, WIDTHxLAYERSxSTEPS_IN_A_TURN each")
      ->delimiter(',')
      ->check([](const std::string& text) {
        return std::regex_match(text, std::regex("([1-9][0-9]{0,5}x){2}[1-9][0-9]{0,5}"))
                   ? ""
                   : text + " is not WIDTHxLAYERSxSTEPS";
      })
      ->capture_default_str();
  app.add_option("--against", options.against,
                 "python: PyTorch's DDP; digest: ours, run with --digest; gloo: ours on that "
                 "backend; alone: no DDP")
      ->check(CLI::IsMember({"python", "digest", "gloo", "alone"}))
      ->capture_default_str();
  app.add_option("--backend", options.backend, "of our DDP")
      ->check(CLI::IsMember({"gloo", "shm"}))
      ->capture_default_str();
  app.add_flag("--views", options.views, "gradients of ours are views of buckets");
  app.add_option("--python", options.python, "a Python that has torch")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  if (options.quick) options.rounds = 4;
  return options;
}

Words command(const Options& options) {
  const bool digest = options.against == "digest";
  const bool python = options.against == "python";
  Words words = {DISTRUN_PROGRAM, "launch", "--nproc-per-node", "4"};
  const auto add = [&words](const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (digest) {
    add({"--digest", "sh", "-c", kAgainstDigest, "sh", DDP_RANKS});
  } else if (python) {
    add({"sh", "-c", kAgainstPython, "sh", options.python, DDP_RANKS, DDP_RANKS_PY});
  } else {
    add({"--no-python", DDP_RANKS});
  }
  add({std::to_string(options.rounds), digest ? "--digest" : python ? "Python" : options.against});
  add({options.backend, options.views ? "views" : "copies"});
  add(options.shapes);
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.against == "python" && options.python.empty()) {
    fmt::print(
        stderr,
        "ddp_bench: no Python with torch to compare with: pass --python or --against digest\n");
    return 1;
  }
  if (options.quick) fmt::print("--quick: {}\n", kQuick);
  std::fflush(stdout);
  const Words words = command(options);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  fmt::print(stderr, "ddp_bench: cannot execute {}\n", words[0]);
  return 1;
}
