// The collectives of ShmBackend that run at once (backends/group/direct_calls.h).
#include <type_traits>
#include <utility>

#include <c10/util/SmallVector.h>

#include "backends/shm/ended_tensors.h"
#include "backends/shm/shm_backend.h"
#include "backends/shm/shm_errors.h"

namespace distrun::shm {

namespace {

std::byte* data_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Whether `large` consists of a part like `small` for each rank.
bool is_times(const at::Tensor& large, const at::Tensor& small, int ranks) {
  return large.scalar_type() == small.scalar_type() && large.numel() == small.numel() * ranks;
}

// For up to 8 ranks, it allocates nothing.
template <class Part>
c10::SmallVector<Part, 8> parts_of(const at::Tensor& tensor, int ranks) {
  const std::size_t bytes = tensor.nbytes() / static_cast<std::size_t>(ranks);
  c10::SmallVector<Part, 8> parts;
  parts.reserve(static_cast<std::size_t>(ranks));
  std::byte* at = data_of(tensor);
  for (int rank = 0; rank < ranks; ++rank, at += bytes) {
    if constexpr (std::is_pointer_v<Part>) {
      parts.push_back(at);
    } else {
      parts.push_back({at, bytes});
    }
  }
  return parts;
}

// Calls `begin` when the first data are published, or before this rank sleeps until an earlier call
// of the others has ended.
class BeginningWatch : public ForwardingWatch {
 public:
  BeginningWatch(Watch& watch, ShmBackend::Begin begin) : ForwardingWatch(watch), begin_(begin) {}

  void published() override {
    if (!std::exchange(has_begun_, true)) begin_();
  }
  void check(int rank) override {
    published();
    ForwardingWatch::check(rank);
  }

 private:
  const ShmBackend::Begin begin_;
  bool has_begun_ = false;
};

}  // namespace

bool ShmBackend::run_now(Begin begin, RankGroup::Call act) {
  EndedTensors::release();
  return queue_->run_now([&] {
    ++calls_;
    with_backend_errors([&] {
      group_->run(timeout_.load(), [&](Collectives& group, Watch& watch) {
        BeginningWatch beginning(watch, begin);
        act(group, beginning);
      });
    });
  });
}

bool ShmBackend::barrier_now(Begin begin) {
  return run_now(begin, [](Collectives& group, Watch& watch) { group.barrier(watch); });
}

bool ShmBackend::broadcast_now(const at::Tensor& tensor, int root, Begin begin) {
  const auto call = [&](Collectives& group, Watch& watch) {
    group.broadcast(data_of(tensor), tensor.nbytes(), root, watch);
  };
  return run_now(begin, call);
}

bool ShmBackend::all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op, Begin begin) {
  const auto how = find_reducing(tensor, op);
  if (!how) return false;
  const auto call = [&](Collectives& group, Watch& watch) {
    group.all_reduce(data_of(tensor), static_cast<std::size_t>(tensor.numel()), *how, watch);
  };
  return run_now(begin, call);
}

bool ShmBackend::all_gather_now(const at::Tensor& output, const at::Tensor& input, Begin begin) {
  if (!is_times(output, input, getSize())) return false;
  const auto call = [&](Collectives& group, Watch& watch) {
    group.all_gather(data_of(input), parts_of<std::byte*>(output, getSize()), input.nbytes(),
                     watch);
  };
  return run_now(begin, call);
}

bool ShmBackend::reduce_scatter_now(const at::Tensor& output, const at::Tensor& input,
                                    const c10d::ReduceOp& op, Begin begin) {
  const auto how = find_reducing(output, op);
  if (!how || !is_times(input, output, getSize())) return false;
  const auto call = [&](Collectives& group, Watch& watch) {
    group.reduce_scatter(parts_of<const std::byte*>(input, getSize()), data_of(output),
                         static_cast<std::size_t>(output.numel()), *how, watch);
  };
  return run_now(begin, call);
}

bool ShmBackend::all_to_all_now(const at::Tensor& output, const at::Tensor& input, Begin begin) {
  const bool is_equal = is_times(output, input, 1) && input.dim() > 0 && output.dim() > 0 &&
                        input.size(0) % getSize() == 0 && output.size(0) % getSize() == 0;
  if (!is_equal) return false;
  const auto call = [&](Collectives& group, Watch& watch) {
    group.all_to_all(parts_of<Collectives::ConstPart>(input, getSize()),
                     parts_of<Collectives::Part>(output, getSize()), watch);
  };
  return run_now(begin, call);
}

}  // namespace distrun::shm
