#include "cli/recording_here.h"

#include <algorithm>
#include <filesystem>

#include "common/os/host_name.h"

namespace distrun {

bool writes_a_report(std::string_view flag) {
  return std::find(kReportFlags.begin(), kReportFlags.end(), flag) != kReportFlags.end();
}

RecordingFacts facts_of_this_process() {
  std::error_code none;
  RecordingFacts facts;
  facts.distrun = DISTRUN_VERSION;
  facts.folder = std::filesystem::current_path(none).string();
  facts.host = host_name();
  return facts;
}

}  // namespace distrun
