#include "backends/group/answer_within.h"

#include <exception>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace distrun::internal {

std::optional<std::string> answer_within(std::chrono::milliseconds time,
                                         std::function<std::string()> ask) {
  const auto promise = std::make_shared<std::promise<std::optional<std::string>>>();
  auto answer = promise->get_future();
  const auto answer_it = [promise, ask = std::move(ask)] {
    try {
      promise->set_value(ask());
    } catch (const std::exception&) {
      promise->set_value(std::nullopt);
    }
  };
  try {
    std::thread(answer_it).detach();
  } catch (const std::system_error&) {  // There are too many threads.
    return std::nullopt;
  }
  return answer.wait_for(time) == std::future_status::ready ? answer.get() : std::nullopt;
}

}  // namespace distrun::internal
