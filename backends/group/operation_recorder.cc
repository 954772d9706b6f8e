#include "backends/group/operation_recorder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backends/group/observed_work.h"
#include "backends/group/work_future.h"
#include "common/operations/digest.h"
#include "common/operations/operation_writer.h"

namespace distrun::internal {

namespace {

// An operator of c10d: which of its arguments are what, by position; -1: it has none.
struct Call {
  const char* operator_name;
  const char* op;  // torch.distributed's name.
  int outputs, inputs, group, peer;
  enum class Kind { kCollective, kFromRoot, kToRoot, kPointToPoint } kind = Kind::kCollective;
};

using Kind = Call::Kind;
constexpr Call kCalls[] = {
    {"allreduce_", "all_reduce", 0, 0, 1, -1},
    {"allreduce_coalesced_", "all_reduce_coalesced", 0, 0, 1, -1},
    {"broadcast_", "broadcast", 0, 0, 1, 2, Kind::kFromRoot},
    {"reduce_", "reduce", 0, 0, 1, 3, Kind::kToRoot},
    {"allgather_", "all_gather", 0, 1, 2, -1},
    {"_allgather_base_", "all_gather_into_tensor", 0, 1, 2, -1},
    {"allgather_coalesced_", "all_gather_coalesced", 0, 1, 2, -1},
    {"allgather_into_tensor_coalesced_", "all_gather_into_tensor_coalesced", 0, 1, 2, -1},
    {"gather_", "gather", 0, 1, 2, 3, Kind::kToRoot},
    {"scatter_", "scatter", 0, 1, 2, 3, Kind::kFromRoot},
    {"reduce_scatter_", "reduce_scatter", 0, 1, 2, -1},
    {"_reduce_scatter_base_", "reduce_scatter_tensor", 0, 1, 2, -1},
    {"reduce_scatter_tensor_coalesced_", "reduce_scatter_tensor_coalesced", 0, 1, 2, -1},
    {"alltoall_", "all_to_all", 0, 1, 2, -1},
    {"alltoall_base_", "all_to_all_single", 0, 1, 2, -1},
    {"barrier", "barrier", -1, -1, 1, -1},
    {"monitored_barrier_", "monitored_barrier", -1, -1, 1, -1},
    {"send", "send", -1, 0, 1, 2, Kind::kPointToPoint},
    {"recv_", "recv", 0, -1, 1, 2, Kind::kPointToPoint},
    {"recv_any_source_", "recv", 0, -1, 1, -1, Kind::kPointToPoint},
};

using Tensors = std::vector<at::Tensor>;

void append_tensors(const c10::IValue& value, Tensors& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      if (tensor.defined()) tensors.push_back(tensor);
    }
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) append_tensors(each, tensors);
  }
}

Digest digest_of(const Tensors& tensors) {
  Digest digest;
  for (const at::Tensor& each : tensors) {
    if (each.layout() != at::kStrided) continue;
    const at::Tensor tensor = each.detach().to(at::kCPU).contiguous();
    digest.add(tensor.const_data_ptr(), tensor.nbytes());
  }
  return digest;
}

bool are_on_cpu(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.device().is_cpu()) return false;
  }
  return true;
}

// Inference mode skips the keys of autograd and ADInplaceOrView, but not this one.
constexpr c10::DispatchKey kKey = c10::DispatchKey::BackendSelect;
constexpr c10::DispatchKeySet kKeysAfter(c10::DispatchKeySet::FULL_AFTER, kKey);

// "[1024, 2]", or "[1024, 2], …" of several tensors. Calls of small tensors take a microsecond, so
// it allocates nothing.
class SizesText {
 public:
  explicit SizesText(at::ArrayRef<at::Tensor> tensors) {
    if (tensors.empty()) return;
    append("[");
    const char* separator = "";
    for (const std::int64_t size : tensors.front().sizes()) {
      append(separator);
      append(size);
      separator = ", ";
    }
    append(tensors.size() > 1 ? "], …" : "]");
  }

  std::string_view view() const { return {text_.data(), length_}; }

 private:
  void append(std::string_view text) {
    const std::size_t count = std::min(text.size(), text_.size() - length_);
    std::copy_n(text.begin(), count, text_.begin() + length_);
    length_ += count;
  }
  void append(std::int64_t number) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.begin(), digits.end(), number).ptr;
    append(std::string_view(digits.begin(), end));
  }

  std::array<char, kOperationTextBytesMax> text_;
  std::size_t length_ = 0;
};

class Recorder {
 public:
  enum class Digests { kNone, kOutputs, kAll };

  Recorder(std::unique_ptr<OperationWriter> writer, Digests digests)
      : writer_(std::move(writer)), digests_(digests) {}

  void append_to_groups(const std::string& suffix) {
    const std::lock_guard lock(mutex_);
    suffix_ = suffix;
    found_.clear();
  }

  void observe(const Call& call, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) {
    const auto go_on = [&] { op.redispatchBoxed(keys & kKeysAfter, stack); };
    if (!writer_->is_own_process()) return go_on();
    const std::size_t first = stack->size() - op.schema().arguments().size();
    const auto argument = [&](int position) -> const c10::IValue& {
      return (*stack)[first + static_cast<std::size_t>(position)];
    };
    const auto group = argument(call.group).toCustomClass<c10d::ProcessGroup>();
    const bool is_root = call.peer >= 0 && argument(call.peer).toInt() == group->getRank();
    Tensors inputs, outputs;
    if (call.inputs >= 0) append_tensors(argument(call.inputs), inputs);
    if (call.outputs >= 0) append_tensors(argument(call.outputs), outputs);

    const Tensors& shown = inputs.empty() ? outputs : inputs;
    const SizesText sizes(shown);
    BegunOperation operation = described(call.op, *group, shown, sizes);
    if (call.kind == Kind::kPointToPoint) operation.sequence = 0;
    for (const at::Tensor& tensor : outputs.empty() ? inputs : outputs) {
      operation.elements += static_cast<std::uint64_t>(tensor.numel());
    }
    if (outputs.size() == 1) operation.element_bytes = element_bytes_of(outputs.front());
    if (call.peer >= 0) operation.peer = static_cast<int>(argument(call.peer).toInt());
    // Of tensors with a result only, and those only on the ranks that have it.
    if (call.kind == Kind::kToRoot && !is_root) outputs.clear();
    if (call.kind == Kind::kFromRoot && !is_root) inputs.clear();
    if (digests_ == Digests::kAll && !inputs.empty()) {
      operation.input_digest = digest_of(inputs).value();
    }
    operation.began = operation_time_now();
    operation.tells_end = are_on_cpu(inputs) && are_on_cpu(outputs);
    const std::uint64_t number = begin(operation);

    try {
      go_on();
    } catch (...) {
      writer_->end(number, operation_time_now());
      throw;
    }
    if (stack->empty() || !stack->back().isCustomClass()) {  // monitored_barrier
      return writer_->end(number, operation_time_now());
    }
    const auto work = stack->back().toCustomClass<c10d::Work>();
    if (!work) return writer_->end_is_unknown(number);
    if (digests_ != Digests::kNone && !outputs.empty()) {
      const auto end = [this, number, outputs = std::move(outputs)](ObservedWork::Outcome outcome) {
        const auto now = operation_time_now();
        if (outcome == ObservedWork::Outcome::kFailed) return writer_->end(number, now);
        writer_->end(number, now, digest_of(outputs).blocks());
      };
      stack->back() = c10::IValue(c10::static_intrusive_pointer_cast<c10d::Work>(
          c10::make_intrusive<ObservedWork>(work, end)));
      return;
    }
    const auto future = future_of(*work);
    if (!future) return writer_->end_is_unknown(number);
    future->addCallback(
        [this, number](c10::ivalue::Future&) { writer_->end(number, operation_time_now()); });
  }

  Digests digests() const { return digests_; }

  std::uint64_t begin(const DirectOperation& call) {
    if (!writer_->is_own_process()) return 0;
    const at::Tensor* const shown = call.input == nullptr ? call.output : call.input;
    const auto tensors =
        shown == nullptr ? at::ArrayRef<at::Tensor>() : at::ArrayRef<at::Tensor>(*shown);
    const SizesText sizes(tensors);
    BegunOperation operation = described(call.op, call.group, tensors, sizes);
    const at::Tensor* const counted = call.output == nullptr ? call.input : call.output;
    if (counted != nullptr) operation.elements = static_cast<std::uint64_t>(counted->numel());
    if (call.output != nullptr) operation.element_bytes = element_bytes_of(*call.output);
    operation.peer = call.root.value_or(-1);
    operation.began = operation_time_now();
    return begin(operation);
  }

  void end(std::uint64_t number) { writer_->end(number, operation_time_now()); }

 private:
  static std::uint32_t element_bytes_of(const at::Tensor& tensor) {
    return static_cast<std::uint32_t>(tensor.element_size());
  }

  // Refers to the arguments.
  static BegunOperation described(const char* op, const c10d::ProcessGroup& group,
                                  at::ArrayRef<at::Tensor> shown, const SizesText& sizes) {
    BegunOperation operation{.op = op,
                             .sizes = sizes.view(),
                             .group = group.getGroupName(),
                             .group_rank = group.getRank(),
                             .group_size = group.getSize(),
                             .sequence = 1};
    if (!shown.empty()) operation.dtype = c10::toString(shown.front().scalar_type());
    return operation;
  }

  // Counts the collectives of each group; the counts of its ranks agree.
  std::uint64_t begin(BegunOperation& operation) {
    const std::lock_guard lock(mutex_);
    Counted& group = counted(operation.group);
    operation.group = group.first;
    if (operation.sequence != 0) operation.sequence = ++group.second;
    return writer_->begin(operation);
  }

  // The name of a group, with the suffix, and how many collectives of it have begun.
  using Counted = std::pair<const std::string, std::uint32_t>;
  Counted& counted(std::string_view name) {
    auto found = found_.find(name);
    if (found == found_.end()) {
      Counted& group = *collectives_.try_emplace(std::string(name) + suffix_).first;
      found = found_.emplace(name, &group).first;
    }
    return *found->second;
  }

  const std::unique_ptr<OperationWriter> writer_;
  const Digests digests_;
  std::mutex mutex_;
  std::string suffix_;  // Of the names of groups.
  std::map<std::string, std::uint32_t> collectives_;
  std::map<std::string, Counted*, std::less<>> found_;  // By the names without this suffix.
};

Recorder::Digests digests_wanted() {
  const char* const wanted = std::getenv("DISTRUN_DIGEST");
  const std::string_view text = wanted == nullptr ? "" : wanted;
  if (text == "all") return Recorder::Digests::kAll;
  return text.empty() ? Recorder::Digests::kNone : Recorder::Digests::kOutputs;
}

// Operations may end while the process exits.
Recorder* recorder = nullptr;

template <std::size_t kCall>
void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  recorder->observe(kCalls[kCall], op, keys, stack);
}

template <std::size_t... kIndexes>
void register_calls(torch::Library& library, std::index_sequence<kIndexes...>) {
  (library.impl(kCalls[kIndexes].operator_name,
                torch::CppFunction::makeFromBoxedFunction<&observe<kIndexes>>()),
   ...);
}

}  // namespace

void record_operations(const std::string& suffix) {
  static const bool once = [] {
    const char* const address = std::getenv(kOperationsVariable);
    if (address == nullptr) return false;
    auto writer = OperationWriter::open(address);
    if (!writer) return false;
    recorder = new Recorder(std::move(writer), digests_wanted());
    static auto* const library =
        new torch::Library(torch::Library::IMPL, "c10d", kKey, __FILE__, __LINE__);
    register_calls(*library, std::make_index_sequence<std::size(kCalls)>());
    return true;
  }();
  if (once) recorder->append_to_groups(suffix);
}

bool can_record_directly() {
  return recorder == nullptr || recorder->digests() == Recorder::Digests::kNone;
}

DirectRecord::DirectRecord(const DirectOperation& operation) {
  if (recorder != nullptr) number_ = recorder->begin(operation);
}

DirectRecord::~DirectRecord() {
  if (number_ != 0) recorder->end(number_);
}

}  // namespace distrun::internal
