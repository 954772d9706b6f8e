#include "testsuites/testing/operation_times.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <deque>
#include <iterator>
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
  std::size_t left_out = 0;  // Position of last.front().
};
LastOperations& last_operations() {
  static auto* const all = new LastOperations;  // Threads may use it until exit.
  return *all;
}

struct NumberOfOperation : at::ObserverContext {
  explicit NumberOfOperation(std::size_t given) : number(given) {}
  const std::size_t number;
};

// "gloo:all_reduce", "nccl:send 0->1", but not "c10d::allreduce_" or "train:forward".
bool is_title(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == 0 || colon == name.npos || name.substr(colon).starts_with("::")) return false;
  const auto is_of_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  if (!std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon), is_of_word)) {
    return false;
  }
  const std::string_view op = name.substr(colon + 1);
  constexpr const char* kOps[] = {"reduce",     "gather", "scatter", "broadcast", "barrier",
                                  "all_to_all", "send",   "recv",    "coalesced"};
  return std::any_of(std::begin(kOps), std::end(kOps),
                     [&](const char* word) { return op.find(word) != op.npos; });
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
