#include "testsuites/testing/operation_times.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "testsuites/testing/collectives.h"

namespace distrun {

namespace {

struct LastOperations {
  std::mutex mutex;
  std::deque<TimedOperation> last;
  std::size_t left_out = 0;  // The number of last.front().
};
LastOperations& last_operations() {
  static auto* const all = new LastOperations;  // Threads may use it until the process ends.
  return *all;
}

struct NumberOfOperation : at::ObserverContext {
  explicit NumberOfOperation(std::size_t given) : number(given) {}
  const std::size_t number;
};

// "gloo:all_reduce", but not "c10d::allreduce_" or "my step: 3".
bool is_title(std::string_view name) {
  const auto is_word = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_';
    });
  };
  const auto colon = name.find(':');
  return colon != name.npos && is_word(name.substr(0, colon)) && is_word(name.substr(colon + 1));
}

std::string text_of(c10::ArrayRef<const c10::IValue> inputs) {
  constexpr std::size_t kTensorsMax = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(inputs.size(), kTensorsMax); ++i) {
    if (!inputs[i].isTensor() || !inputs[i].toTensor().defined()) continue;
    const at::Tensor& tensor = inputs[i].toTensor();
    text += fmt::format("{}{} [{}]", text.empty() ? "" : ", ", c10::toString(tensor.scalar_type()),
                        fmt::join(tensor.sizes(), ", "));
  }
  if (inputs.size() > kTensorsMax) text += fmt::format(", {} more", inputs.size() - kTensorsMax);
  return text;
}

std::unique_ptr<at::ObserverContext> see_begin(const at::RecordFunction& function) {
  if (!is_title(function.name())) return nullptr;
  TimedOperation operation{.op = op_of(function.name()),
                           .tensors = text_of(function.inputs()),
                           .began = {},
                           .ended = {}};
  LastOperations& all = last_operations();
  const std::lock_guard lock(all.mutex);
  operation.began = wall_time_now();
  all.last.push_back(std::move(operation));
  if (all.last.size() > kOperationsKept) {
    all.last.pop_front();
    ++all.left_out;
  }
  return std::make_unique<NumberOfOperation>(all.left_out + all.last.size() - 1);
}

void see_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const std::size_t number = static_cast<NumberOfOperation*>(context)->number;
  LastOperations& all = last_operations();
  const std::lock_guard lock(all.mutex);
  if (number >= all.left_out) all.last[number - all.left_out].ended = wall_time_now();
}

}  // namespace

void record_operation_times() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::addGlobalCallback(at::RecordFunctionCallback(see_begin, see_end)
                              .needsInputs(true)
                              .scopes({at::RecordScope::USER_SCOPE}));
  });
}

OperationTimes operation_times() {
  LastOperations& all = last_operations();
  const std::lock_guard lock(all.mutex);
  return {{all.last.begin(), all.last.end()}, static_cast<int>(all.left_out)};
}

}  // namespace distrun
