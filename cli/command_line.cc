#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/near_miss.h"
#include "common/text/parse_number.h"

namespace distrun {

namespace {

Error wrong(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

// Of mpirun, srun and accelerate.
constexpr auto kOtherNames = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"n", "nproc-per-node"},
    {"np", "nproc-per-node"},
    {"nprocs", "nproc-per-node"},
    {"num-processes", "nproc-per-node"},
    {"ntasks-per-node", "nproc-per-node"},
    {"N", "nnodes"},
    {"nodes", "nnodes"},
    {"num-machines", "nnodes"},
    {"machine-rank", "node-rank"},
    {"H", "hosts"},
    {"host", "hosts"},
    {"output-filename", "log-dir"},
});

// Whether argparse would reject `word` as a value.
bool looks_like_flag(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  if (word.find(' ') != std::string::npos) return false;
  return word.find_first_not_of("0123456789.", 1) != std::string::npos;  // -1 is a number.
}

class Splitter {
 public:
  Splitter(std::span<const LaunchFlag> flags, const std::vector<std::string>& arguments)
      : flags_(flags), arguments_(arguments) {}

  Result<CommandLine> split() {
    while (at_ < arguments_.size()) {
      const std::string& word = arguments_[at_];
      if (word.size() < 2 || word[0] != '-') break;
      ++at_;
      if (word == "--") break;
      if (const auto taken = word[1] == '-' ? take_name(word) : take_letters(word); !taken) {
        return taken.error();
      }
    }
    line_.program.insert(line_.program.end(), arguments_.begin() + static_cast<long>(at_),
                         arguments_.end());
    return std::move(line_);
  }

 private:
  // "--name", "--name=value".
  Result<void> take_name(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    const auto flag = find(name);
    if (!flag) return flag.error();
    if (equals == std::string::npos) return take(**flag, std::nullopt);
    return take(**flag, word.substr(equals + 1));
  }

  // "-r", "-r3", "-r=3", "-mr3", "-mMODULE".
  Result<void> take_letters(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const LaunchFlag* flag = find(word[i]);
      const std::string rest = word.substr(i + 1);
      if (flag == nullptr) return unknown(word, word.substr(1));
      if (flag->takes_value()) {
        if (rest.empty()) return take(*flag, std::nullopt);
        return take(*flag, rest[0] == '=' ? rest.substr(1) : rest);
      }
      if (auto taken = take(*flag, std::nullopt); !taken) return taken;
      if (flag->name == "module" && !rest.empty() && !is_stream_flag(rest)) {
        line_.program.push_back(rest);
        arguments_end_flags();
        return {};
      }
    }
    return {};
  }

  // "r3" or "t" after -m is another flag, not a module.
  bool is_stream_flag(const std::string& text) const {
    const LaunchFlag* flag = find(text[0]);
    if (flag == nullptr) return false;
    return text.size() == 1 || std::isdigit(static_cast<unsigned char>(text[1])) != 0;
  }

  Result<void> take(const LaunchFlag& flag, std::optional<std::string> value) {
    const std::string said = fmt::format("--{}", flag.name);
    if (!flag.takes_value() && value) return wrong(fmt::format("{}: takes no value", said));
    if (flag.takes_value() && !value) {
      if (at_ == arguments_.size() || looks_like_flag(arguments_[at_])) {
        return wrong(
            fmt::format("{0}: needs a value (if the value begins with a dash: {0}=VALUE)", said));
      }
      value = arguments_[at_++];
    }
    line_.flags[std::string(flag.name)] = {value.value_or(""), said};
    return {};
  }

  const LaunchFlag* find(char letter) const {
    const auto found = std::find_if(flags_.begin(), flags_.end(), [&](const LaunchFlag& flag) {
      return flag.letter == letter && letter != '\0';
    });
    return found == flags_.end() ? nullptr : &*found;
  }

  // By name or unique prefix. torchrun's flags win over ours, so that its command lines keep their
  // meaning.
  Result<const LaunchFlag*> find(const std::string& text) const {
    std::string name = text;
    std::replace(name.begin(), name.end(), '_', '-');
    std::vector<const LaunchFlag*> torchruns, own;
    for (const LaunchFlag& flag : flags_) {
      if (flag.name == name) return &flag;
      if (!flag.name.starts_with(name) || name.empty()) continue;
      (flag.worth == FlagWorth::kOwn ? own : torchruns).push_back(&flag);
    }
    const auto& candidates = torchruns.empty() ? own : torchruns;
    if (candidates.size() == 1) return candidates.front();
    if (candidates.empty()) return unknown("--" + text, name);
    std::vector<std::string> names;
    names.reserve(candidates.size());
    for (const LaunchFlag* flag : candidates) names.push_back(fmt::format("--{}", flag->name));
    return wrong(fmt::format("--{} is ambiguous: {}", text, fmt::join(names, " or ")));
  }

  Error unknown(const std::string& word, const std::string& name) const {
    if (const auto ours = flag_of_other_launcher(name); !ours.empty()) {
      return wrong(fmt::format("unknown flag {}: did you mean --{}?", word, ours));
    }
    std::vector<std::string> names;
    for (const LaunchFlag& flag : flags_) names.emplace_back(flag.name);
    return wrong(fmt::format("unknown flag {}{}", word, did_you_mean(name, names, "--")));
  }

  void arguments_end_flags() {
    line_.program.insert(line_.program.end(), arguments_.begin() + static_cast<long>(at_),
                         arguments_.end());
    at_ = arguments_.size();
  }

  std::span<const LaunchFlag> flags_;
  const std::vector<std::string>& arguments_;
  std::size_t at_ = 0;
  CommandLine line_;
};

Result<void> take_variables(std::span<const LaunchFlag> flags, const Environment& environment,
                            CommandLine& line) {
  for (const LaunchFlag& flag : flags) {
    const std::string variable = variable_of(flag);
    const auto value = variable.empty() ? std::nullopt : environment.get(variable);
    if (!value || value->empty() || line.find(flag.name) != nullptr) continue;
    if (!flag.takes_value()) {
      const auto number = parse_number<int>(*value);
      if (!number) return wrong(fmt::format("{}: '{}' is neither 0 nor 1", variable, *value));
      if (*number == 0) continue;
    }
    line.flags[std::string(flag.name)] = {flag.takes_value() ? *value : "", variable};
  }
  return {};
}

}  // namespace

std::string_view flag_of_other_launcher(std::string_view name) {
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other) return ours;
  }
  return {};
}

const GivenFlag* CommandLine::find(std::string_view name) const {
  const auto found = flags.find(name);
  return found == flags.end() ? nullptr : &found->second;
}

Result<CommandLine> split_command_line(std::span<const LaunchFlag> flags,
                                       const std::vector<std::string>& arguments,
                                       const Environment& environment) {
  auto line = Splitter(flags, arguments).split();
  if (!line) return line.error();
  if (const auto taken = take_variables(flags, environment, *line); !taken) return taken.error();
  return line;
}

}  // namespace distrun
