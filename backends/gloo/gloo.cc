#include "backends/gloo/gloo.h"

#include <chrono>
#include <csignal>
#include <exception>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>

#include "backends/gloo/byte_views.h"
#include "backends/gloo/checked_backend.h"
#include "backends/gloo/gloo_address.h"
#include "backends/group/contiguous.h"
#include "backends/group/libtorch_versions.h"
#include "backends/group/rows.h"

namespace distrun {

namespace {

using Options = c10d::ProcessGroupGloo::Options;
using internal::ByteViews;
using internal::CheckedBackend;

// Gloo writes to sockets whose peer may be gone. As in Python, SIGPIPE must be ignored, so that the
// write fails.
void let_writes_fail() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

c10::intrusive_ptr<Options> default_options(const BackendRequest& request) {
  const auto address = internal::gloo_address(request.store);
  if (!address) return Options::create_default(request.timeout);
  auto options = c10::make_intrusive<Options>(request.timeout);
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(*address, c10d::getDefaultGlooLazyInit()));
  return options;
}

// Adds abort(), lost peers and more dtypes. It uses only Gloo's buffers: the installed declarations
// of Gloo's connections differ from those inside LibTorch.
class GlooBackend : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // A wait that times out closes all connections, which ends all other waits.
  void abort() override {
    for (const auto& context : contexts_) {
      try {
        context->createUnboundBuffer(nullptr, 0)->waitRecv(std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // It times out.
      }
    }
  }

  // A connection keeps the error that ended it, and throws it when used again.
  std::optional<int> peer_of(const std::string& error) {
    if (error.find("]:") == std::string::npos) return std::nullopt;  // It has no address.
    for (const auto& context : contexts_) {
      for (int rank = 0; rank < getSize(); ++rank) {
        const std::string its = rank == getRank() ? "" : error_of(*context, rank);
        if (!its.empty() && error.find(its) != std::string::npos) return rank;
      }
    }
    return std::nullopt;
  }

  // Operations that move tensors accept every dtype.
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    ByteViews views;
    Tensors moved = views.of(tensors);
    return views.finish(ProcessGroupGloo::broadcast(moved, options));
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    ByteViews views;
    TensorLists to = views.of(outputs);
    Tensors from = views.of(inputs);
    return views.finish(ProcessGroupGloo::allgather(to, from, options));
  }
  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                    const c10d::AllgatherOptions& options) override {
    ByteViews views;
    at::Tensor to = views.of(output), from = views.of(input);
    return views.finish(ProcessGroupGloo::DISTRUN_ALL_GATHER_SINGLE(to, from, options));
  }
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override {
    ByteViews views;
    TensorLists to = views.of(outputs);
    Tensors from = views.of(inputs);
    return views.finish(ProcessGroupGloo::allgather_coalesced(to, from, options));
  }
  WorkPtr DISTRUN_ALL_GATHER_SINGLE_COALESCED(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override {
    ByteViews views;
    Tensors to = views.of(outputs), from = views.of(inputs);
    return views.finish(ProcessGroupGloo::DISTRUN_ALL_GATHER_SINGLE_COALESCED(to, from, options));
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    ByteViews views;
    TensorLists to = views.of(outputs);
    Tensors from = views.of(inputs);
    return views.finish(ProcessGroupGloo::gather(to, from, options));
  }
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  // ProcessGroupGloo does not have it.
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) override {
    TensorLists outputs;
    Tensors inputs = {input};
    if (getRank() == options.rootRank) {
      outputs.push_back(internal::rows_of(output, input, getSize()));
    }
    return gather(outputs, inputs, options);
  }
#endif
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override {
    ByteViews views;
    Tensors to = views.of(outputs);
    TensorLists from = views.of(inputs);
    return views.finish(ProcessGroupGloo::scatter(to, from, options));
  }
  WorkPtr DISTRUN_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                    std::vector<std::int64_t>& output_sizes,
                                    std::vector<std::int64_t>& input_sizes,
                                    const c10d::AllToAllOptions& options) override {
    ByteViews views;
    at::Tensor to = views.of(output), from = views.of(input);
    return views.finish(
        ProcessGroupGloo::DISTRUN_ALL_TO_ALL_SINGLE(to, from, output_sizes, input_sizes, options));
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override {
    if (!kHasAllToAllOfLists) return all_to_all_through_one_tensor(outputs, inputs, options);
    ByteViews views;
    Tensors to = views.of(outputs), from = views.of(inputs);
    return views.finish(ProcessGroupGloo::alltoall(to, from, options));
  }

 private:
  // If ProcessGroupGloo does not override a member, the pointer has the type of Backend's.
  static constexpr bool kHasAllToAllOfLists =
      !std::is_same_v<decltype(&ProcessGroupGloo::alltoall), decltype(&Backend::alltoall)>;

  // For LibTorch 2.11, whose ProcessGroupGloo has no alltoall().
  WorkPtr all_to_all_through_one_tensor(const Tensors& outputs, const Tensors& inputs,
                                        const c10d::AllToAllOptions& options) {
    const at::NoGradGuard no_grad;
    Tensors sent;
    std::vector<std::int64_t> sizes_sent, sizes_received;
    for (const at::Tensor& one : inputs) {
      sent.push_back(one.reshape({-1}));
      sizes_sent.push_back(one.numel());
    }
    for (const at::Tensor& one : outputs) sizes_received.push_back(one.numel());
    at::Tensor from = at::cat(sent);
    at::Tensor to =
        at::empty({std::accumulate(sizes_received.begin(), sizes_received.end(), std::int64_t{0})},
                  from.options());
    const Tensors parts = to.split_with_sizes(sizes_received);
    std::vector<internal::CopyBack> copies;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      copies.push_back(
          {.to = outputs[i], .sent = parts[i], .from = parts[i].view(outputs[i].sizes())});
    }
    return internal::copy_back_after(
        DISTRUN_ALL_TO_ALL_SINGLE(to, from, sizes_received, sizes_sent, options),
        std::move(copies));
  }

  static std::string error_of(gloo::Context& context, int rank) {
    constexpr auto kNobodysSlot = std::numeric_limits<std::uint64_t>::max();
    try {
      context.createUnboundBuffer(nullptr, 0)->recv(rank, kNobodysSlot, 0, 0);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

// Compares calls in groups with Python ranks. LibTorch's wrapper does not pass timeouts and aborts
// on to the backend of checks.
class PythonsCheckedBackend : public c10d::ProcessGroupWrapper {
 public:
  PythonsCheckedBackend(const c10::intrusive_ptr<c10d::Backend>& backend,
                        c10::intrusive_ptr<c10d::Backend> checks)
      : ProcessGroupWrapper(backend, checks), checks_(std::move(checks)) {}

  void setTimeout(std::chrono::milliseconds timeout) override {
    checks_->setTimeout(timeout);
    getWrappedPg()->setTimeout(timeout);
  }

  void abort() override {
    checks_->abort();
    getWrappedPg()->abort();
  }

  c10d::Backend& checks() const { return *checks_; }

 private:
  const c10::intrusive_ptr<c10d::Backend> checks_;
};

// Ranks of distrun set these keys, ranks in Python do not.
std::string key_of_distrun(int rank) { return "distrun_rank_" + std::to_string(rank); }

}  // namespace

void check_gloo_options(const BackendOptions& options) {
  const auto* given = options.pointer().get();
  TORCH_CHECK_TYPE(given == nullptr || dynamic_cast<const Options*>(given) != nullptr,
                   "the options of a gloo group are c10d::ProcessGroupGloo::Options");
}

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request) {
  let_writes_fail();
  check_gloo_options(request.options);
  const auto given = c10::dynamic_intrusive_pointer_cast<Options>(request.options);
  const auto options = given ? c10::make_intrusive<Options>(*given) : default_options(request);
  options->timeout = request.timeout;
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  auto backend =
      c10::make_intrusive<GlooBackend>(request.store, request.rank, request.size, options);
  internal::start_sequence_numbers(*backend);
  return backend;
}

c10::intrusive_ptr<c10d::Backend> make_backend_with_checks(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request) {
  BackendRequest helper = request;
  helper.store =
      c10::make_intrusive<c10d::PrefixStore>("pg_wrapper:" + request.group_name, request.store);
  helper.options = nullptr;
  // A rank sets its key before it connects, so a rank connected to all sees all keys.
  helper.store->set(key_of_distrun(request.rank), std::vector<std::uint8_t>{1});
  auto checks = make_gloo_backend(helper);
  std::vector<std::string> keys;
  keys.reserve(static_cast<std::size_t>(request.size));
  for (int rank = 0; rank < request.size; ++rank) keys.push_back(key_of_distrun(rank));
  if (!helper.store->check(keys)) {
    return c10::make_intrusive<PythonsCheckedBackend>(backend, std::move(checks));
  }
  return c10::make_intrusive<CheckedBackend>(backend, std::move(checks), request.ranks);
}

bool is_gloo_timeout(std::string_view text) {
  return text.find("Timed out waiting") != text.npos ||
         text.find("Application timeout") != text.npos;
}

bool is_gloo_error(std::string_view text) {
  return text.find("gloo/transport/") != text.npos || text.find("pair closure") != text.npos;
}

std::optional<int> peer_of_gloo_error(c10d::Backend& backend, const std::string& error) {
  if (auto* gloo = dynamic_cast<GlooBackend*>(&backend)) return gloo->peer_of(error);
  const auto of_both = [&](c10d::Backend& wrapped, c10d::Backend& checks) {
    const auto peer = peer_of_gloo_error(wrapped, error);
    return peer ? peer : peer_of_gloo_error(checks, error);
  };
  if (auto* one = dynamic_cast<CheckedBackend*>(&backend)) {
    return of_both(one->inner(), one->checks());
  }
  if (auto* one = dynamic_cast<PythonsCheckedBackend*>(&backend)) {
    return of_both(*one->getWrappedPg(), one->checks());
  }
  return std::nullopt;
}

}  // namespace distrun
