#include "launcher/outcome/worker_error.h"

#include "common/crash/error_file.h"
#include "common/text/demangle.h"
#include "common/text/text_cut.h"
#include "common/units.h"

namespace distrun {

namespace {

constexpr std::size_t kTextBytesMax = 16 * kKiB;

// A Python traceback ends with its error; a C++ backtrace starts with it.
std::string both_ends(const std::string& text) {
  if (text.size() <= kTextBytesMax) return text;
  constexpr std::size_t kHalf = kTextBytesMax / 2;
  return std::string(cut_to_bytes(text, kHalf)) + "\n…\n" +
         std::string(cut_to_last_bytes(text, kHalf));
}

}  // namespace

WorkerError read_worker_error(const std::string& path) {
  const auto report = read_error_file(path);
  if (!report) return {.text = "cannot read its error file: " + report.error().message};
  if (!*report) return {};
  return {.text = std::string(cut_to_bytes((*report)->message, kTextBytesMax)),
          .callstack = demangled_backtrace(both_ends((*report)->callstack))};
}

Result<void> hand_on_worker_error(const std::string& path, const ProcessEnd& end,
                                  const Environment& environment) {
  const std::string own = environment.get("TORCHELASTIC_ERROR_FILE").value_or("");
  if (own.empty()) return {};
  if (const auto report = read_error_file(path); !report || !*report) return {};
  const auto* exited = std::get_if<ExitedWith>(&end);
  return copy_error_file(path, own, exited ? exited->code : -std::get<KilledBy>(end).signal);
}

}  // namespace distrun
