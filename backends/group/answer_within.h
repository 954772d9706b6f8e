// Asks something that may not answer, such as a store whose host has stopped.
//
//     const auto value = answer_within(std::chrono::seconds(1), [store] { return text_in(store);
//     });
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace distrun::internal {

// Calls `ask` on another thread, which is abandoned if it does not return in time, so `ask` must
// own what it uses. Null then, and if `ask` throws.
std::optional<std::string> answer_within(std::chrono::milliseconds time,
                                         std::function<std::string()> ask);

}  // namespace distrun::internal
