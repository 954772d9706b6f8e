#include "launcher/hosts/hosts_end.h"

#include <algorithm>

#include "launcher/outcome/run_end.h"

namespace distrun {

HostsEnd hosts_end(const std::vector<HostEnd>& ends) {
  // A worker can exit with 255, too. Then all nodes do.
  const bool all_say_255 = std::all_of(
      ends.begin(), ends.end(), [](const HostEnd& end) { return end.status == kConnectionLost; });
  HostsEnd whole{.status = kExitInternal};
  bool has_status = false;
  for (const HostEnd& end : ends) {
    if (!end.status || (*end.status == kConnectionLost && !all_say_255)) {
      whole.lost.push_back(end.host);
    } else if (!has_status) {
      whole.status = *end.status;
      has_status = true;
    }
  }
  if (!whole.lost.empty()) whole.status = kExitInternal;
  return whole;
}

}  // namespace distrun
