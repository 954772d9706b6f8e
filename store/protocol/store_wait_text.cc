#include "store/protocol/store_wait_text.h"

#include <fmt/format.h>

#include "common/text/printable.h"

namespace distrun {

std::string shown_key(std::string_view key) {
  if (key.starts_with('/')) key.remove_prefix(1);
  const std::string shown = printable(key, 200);
  return shown.empty() ? "(the empty key)" : shown;
}

std::string text_of(const StoreWait& wait) {
  std::string keys;
  for (const std::string& key : wait.keys) keys += (keys.empty() ? "" : ", ") + shown_key(key);
  if (wait.arrivals_wanted > 0) {
    return fmt::format("in the barrier {}: {} of {} clients arrived", keys, wait.arrived,
                       wait.arrivals_wanted);
  }
  if (wait.keys.empty())
    return fmt::format("for {} key{}", wait.keys_left, wait.keys_left == 1 ? "" : "s");
  if (wait.keys_left > wait.keys.size()) {
    keys += fmt::format(" and {} more", wait.keys_left - wait.keys.size());
  }
  return "for " + keys;
}

}  // namespace distrun
