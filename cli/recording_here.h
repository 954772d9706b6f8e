// What a recording says of the process that makes it.
#pragma once

#include "recording/recording_facts.h"

namespace distrun {

// The version, the folder and the host.
RecordingFacts facts_of_this_process();

}  // namespace distrun
