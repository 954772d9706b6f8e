#include "backends/group/operation_recorder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
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
#include <c10/util/SmallVector.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backends/group/observed_work.h"
#include "backends/group/work_future.h"
#include "common/operations/digest.h"
#include "common/operations/operation_writer.h"
#include "common/os/quick_clock.h"

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
    last_direct_.forget();
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
    BegunOperation operation = begun_in(*group);
    for (const at::Tensor& tensor : outputs.empty() ? inputs : outputs) {
      operation.elements += static_cast<std::uint64_t>(tensor.numel());
    }
    if (outputs.size() == 1) operation.element_bytes = element_bytes_of(outputs.front());
    if (call.peer >= 0) operation.peer = static_cast<int>(argument(call.peer).toInt());
    // Before one of the lists is cleared.
    const SizesText sizes(shown);
    const char* dtype = shown.empty() ? "" : c10::toString(shown.front().scalar_type());
    // Of tensors with a result only, and those only on the ranks that have it.
    if (call.kind == Kind::kToRoot && !is_root) outputs.clear();
    if (call.kind == Kind::kFromRoot && !is_root) inputs.clear();
    if (digests_ == Digests::kAll && !inputs.empty()) {
      operation.input_digest = digest_of(inputs).value();
    }
    operation.began = quick_time_now();
    operation.tells_end = are_on_cpu(inputs) && are_on_cpu(outputs);
    const std::uint64_t number = begin(call, *group, dtype, sizes.view(), operation);

    try {
      go_on();
    } catch (...) {
      end(number);
      throw;
    }
    if (stack->empty() || !stack->back().isCustomClass()) {  // monitored_barrier
      return end(number);
    }
    const auto work = stack->back().toCustomClass<c10d::Work>();
    if (!work) return end_is_unknown(number);
    if (digests_ != Digests::kNone && !outputs.empty()) {
      const auto ended = [this, number,
                          outputs = std::move(outputs)](ObservedWork::Outcome outcome) {
        const auto now = quick_time_now();
        if (outcome == ObservedWork::Outcome::kFailed) return end(number, now);
        end(number, now, digest_of(outputs).blocks());
      };
      stack->back() = c10::IValue(c10::static_intrusive_pointer_cast<c10d::Work>(
          c10::make_intrusive<ObservedWork>(work, ended)));
      return;
    }
    const auto future = future_of(*work);
    if (!future) return end_is_unknown(number);
    future->addCallback([this, number](c10::ivalue::Future&) { end(number); });
  }

  Digests digests() const { return digests_; }

  std::uint64_t begin(const DirectOperation& call) {
    if (!writer_->is_own_process()) return 0;
    const at::Tensor* const shown = call.input == nullptr ? call.output : call.input;
    BegunOperation operation = begun_in(call.group);
    const at::Tensor* const result = call.output == nullptr ? call.input : call.output;
    if (result != nullptr) operation.elements = static_cast<std::uint64_t>(result->numel());
    if (call.output != nullptr) operation.element_bytes = element_bytes_of(*call.output);
    operation.peer = call.root.value_or(-1);
    operation.began = quick_time_now();
    const std::lock_guard lock(mutex_);
    if (!last_direct_.is_like(call, shown)) last_direct_.become(call, shown, counted(call.group));
    operation.sequence = ++last_direct_.group().second;
    return writer_->begin(last_direct_.texts(), operation);
  }

  void end(std::uint64_t number) { end(number, quick_time_now()); }

 private:
  void end(std::uint64_t number, OperationTime at,
           const std::optional<BlockDigests>& output_digests = std::nullopt) {
    const std::lock_guard lock(mutex_);
    writer_->end(number, at, output_digests);
  }
  void end_is_unknown(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    writer_->end_is_unknown(number);
  }

  static std::uint32_t element_bytes_of(const at::Tensor& tensor) {
    return static_cast<std::uint32_t>(tensor.element_size());
  }

  static BegunOperation begun_in(const c10d::ProcessGroup& group) {
    return {.group_rank = group.getRank(), .group_size = group.getSize()};
  }

  // Counts the collectives of each group; the counts of its ranks agree.
  std::uint64_t begin(const Call& call, const c10d::ProcessGroup& group, const char* dtype,
                      std::string_view sizes, BegunOperation& operation) {
    const std::lock_guard lock(mutex_);
    Counted& its_group = counted(group);
    if (call.kind != Kind::kPointToPoint) operation.sequence = ++its_group.second;
    return writer_->begin(operation_texts(call.op, dtype, sizes, its_group.first), operation);
  }

  // The name of a group, with the suffix, and the number of its collectives that have started.
  using Counted = std::pair<const std::string, std::uint32_t>;
  Counted& counted(const c10d::ProcessGroup& group) {
    const std::string& name = group.getGroupName();
    auto found = found_.find(name);
    if (found == found_.end()) {
      Counted& its = *collectives_.try_emplace(name + suffix_).first;
      found = found_.emplace(name, &its).first;
    }
    return *found->second;
  }

  // Loops make the same call again and again; to describe it takes longer than to compare it.
  class DescribedCall {
   public:
    bool is_like(const DirectOperation& call, const at::Tensor* shown) const {
      return op_ == call.op && group_name_ == call.group.getGroupName() &&
             (shown == nullptr ? dtype_ == at::ScalarType::Undefined
                               : dtype_ == shown->scalar_type() && shown->sizes() == sizes_);
    }
    void become(const DirectOperation& call, const at::Tensor* shown, Counted& group) {
      const auto tensors =
          shown == nullptr ? at::ArrayRef<at::Tensor>() : at::ArrayRef<at::Tensor>(*shown);
      forget();
      group_name_ = call.group.getGroupName();
      group_ = &group;
      dtype_ = shown == nullptr ? at::ScalarType::Undefined : shown->scalar_type();
      sizes_.clear();
      if (shown != nullptr) sizes_.append(shown->sizes().begin(), shown->sizes().end());
      texts_ = operation_texts(call.op, shown == nullptr ? "" : c10::toString(dtype_),
                               SizesText(tensors).view(), group.first);
      op_ = call.op;
    }
    void forget() { op_ = nullptr; }

    Counted& group() const { return *group_; }
    const OperationTexts& texts() const { return texts_; }

   private:
    const char* op_ = nullptr;  // Null: it is like no call.
    std::string group_name_;
    at::ScalarType dtype_ = at::ScalarType::Undefined;
    c10::SmallVector<std::int64_t, 5> sizes_;
    Counted* group_ = nullptr;
    OperationTexts texts_;
  };

  const std::unique_ptr<OperationWriter> writer_;
  const Digests digests_;
  std::mutex mutex_;    // Guards the writer, too.
  std::string suffix_;  // Of the names of groups.
  std::map<std::string, std::uint32_t> collectives_;
  std::map<std::string, Counted*> found_;  // By the names without this suffix.
  DescribedCall last_direct_;
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
