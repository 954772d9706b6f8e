#include "cli/log_flags.h"

#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/launch_flags.h"

namespace distrun {

namespace {

template <class T>
T given(const std::string& said, Result<T> parsed) {
  if (!parsed) throw CLI::ValidationError(said, parsed.error().message);
  return std::move(*parsed);
}

}  // namespace

void LogFlags::add_to(CLI::App& launch) {
  bind_flag(launch, "log-dir", folder_);
  bind_flag(launch, "redirects", redirects_);
  bind_flag(launch, "tee", tees_);
  bind_flag(launch, "local-ranks-filter", shown_);
  bind_flag(launch, "duplicate-stdout-filters", out_filters_);
  bind_flag(launch, "duplicate-stderr-filters", err_filters_);
  bind_flag(launch, "prefix", prefix_);
  bind_flag(launch, "log-line-prefix-template", tee_prefix_);
}

LogChoice LogFlags::choice(const CommandLine& line, const Environment& environment,
                           int workers) const {
  // How it was given: "--tee", "PET_TEE".
  const auto said = [&](const std::string& name) {
    const GivenFlag* flag = line.find(name);
    return flag != nullptr ? flag->said : "--" + name;
  };
  constexpr const char* kVariable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  LogChoice choice;
  if (!folder_.empty()) {
    std::error_code error;  // Without a current folder, the run reports the error.
    const auto absolute = std::filesystem::absolute(folder_, error).lexically_normal();
    choice.folder = error ? folder_ : absolute.string();
  }
  choice.redirects = given(said("redirects"), parse_streams(redirects_, workers));
  choice.tees = given(said("tee"), parse_streams(tees_, workers));
  choice.shown = given(said("local-ranks-filter"), parse_local_ranks(shown_, workers));
  choice.out_filters = parse_filters(out_filters_);
  choice.err_filters = parse_filters(err_filters_);
  if (line.find("prefix") != nullptr) {
    choice.prefix = given(said("prefix"), PrefixTemplate::parse(prefix_));
  }
  const std::string text = environment.get(kVariable).value_or("");
  if (!tee_prefix_.empty()) {
    choice.tee_prefix = given(said("log-line-prefix-template"), PrefixTemplate::parse(tee_prefix_));
  } else if (!text.empty()) {
    choice.tee_prefix = given(kVariable, PrefixTemplate::parse(text));
  }
  return choice;
}

}  // namespace distrun
