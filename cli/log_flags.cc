#include "cli/log_flags.h"

#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/flags.h"

namespace distrun {

namespace {

template <class T>
T given(const std::string& flag, Result<T> parsed) {
  if (!parsed) throw CLI::ValidationError(flag, parsed.error().message);
  return std::move(*parsed);
}

}  // namespace

void LogFlags::add_to(CLI::App& launch) {
  launch_ = &launch;
  flag(launch, "log-dir", folder_,
       "Keep log files in a new folder of this one; /dev/null: none, also no error files.");
  flag(launch, "redirects", redirects_,
       "Streams that go to files: 1 stdout, 2 stderr, 3 both; or by local rank, as in 0:3,1:2.",
       "r");
  flag(launch, "tee", tees_, "Streams that go to files and to the console; as --redirects.", "t");
  flag(launch, "local-ranks-filter", shown_,
       "Only these local ranks reach the console, as in 0,2; files get all.");
  flag(launch, "duplicate-stdout-filters", out_filters_,
       "Lines of teed stdout that contain one of these, as in loss,epoch, also go to one file.");
  flag(launch, "duplicate-stderr-filters", err_filters_, "The same for stderr.");
  flag(launch, "prefix", prefix_,
       "What begins each line on the console: text with ${role_name} ${rank} ${local_rank} "
       "${host} ${stream} ${time}.");
}

LogChoice LogFlags::choice(const Environment& environment, int workers) const {
  constexpr const char* kVariable = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
  LogChoice choice;
  if (!folder_.empty()) {
    std::error_code error;  // Where there is no current folder, the run says so.
    const auto absolute = std::filesystem::absolute(folder_, error).lexically_normal();
    choice.folder = error ? folder_ : absolute.string();
  }
  choice.redirects = given("--redirects", parse_streams(redirects_, workers));
  choice.tees = given("--tee", parse_streams(tees_, workers));
  choice.shown = given("--local-ranks-filter", parse_local_ranks(shown_, workers));
  choice.out_filters = parse_filters(out_filters_);
  choice.err_filters = parse_filters(err_filters_);
  if (launch_->count("--prefix") > 0) {
    choice.prefix = given("--prefix", PrefixTemplate::parse(prefix_));
  }
  const std::string text = environment.get(kVariable).value_or("");
  if (!text.empty()) choice.tee_prefix = given(kVariable, PrefixTemplate::parse(text));
  return choice;
}

}  // namespace distrun
