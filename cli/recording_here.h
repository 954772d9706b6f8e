// Facts that `distrun launch` and `distrun test` put into their recordings.
#pragma once

#include <array>
#include <string_view>

#include "recording/recording_facts.h"

namespace distrun {

// The flags that write reports. A run that is run again has none of them.
inline constexpr std::array<std::string_view, 8> kReportFlags = {
    "events", "html", "json", "junit", "record", "save-digests", "trace", "termination-log"};

bool writes_a_report(std::string_view flag);

// The version of this distrun, the folder and the host.
RecordingFacts facts_of_this_process();

}  // namespace distrun
