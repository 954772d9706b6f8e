#include "cli/recording_here.h"

#include <filesystem>

#include "common/os/host_name.h"

namespace distrun {

RecordingFacts facts_of_this_process() {
  std::error_code none;
  RecordingFacts facts;
  facts.distrun = DISTRUN_VERSION;
  facts.folder = std::filesystem::current_path(none).string();
  facts.host = host_name();
  return facts;
}

}  // namespace distrun
