#include "backends/gloo/gloo.h"

#include <chrono>
#include <csignal>
#include <exception>
#include <limits>
#include <utility>

#include <c10/util/Exception.h>
#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>

namespace distrun {

namespace {

using Options = c10d::ProcessGroupGloo::Options;

// Gloo writes to sockets whose other end may be gone.  In Python that is an error of the write, for
// Python ignores SIGPIPE; a C++ program would be killed by it instead of being told.
void let_writes_fail() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

// What else is asked of a Gloo backend.  All by buffers, which Gloo lets anybody make: of its
// connections the declarations say other things than what is inside LibTorch.
class GlooBackend : public c10d::ProcessGroupGloo {
 public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // A wait that is over closes all connections, and with them ends all other waits.
  void abort() override {
    for (const auto& context : contexts_) {
      try {
        context->createUnboundBuffer(nullptr, 0)->waitRecv(std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // Says that it is over.
      }
    }
  }

  // A connection keeps the error by which it has ended, and throws it when it is used again.
  std::optional<int> peer_of(const std::string& error) {
    if (error.find("]:") == std::string::npos) return std::nullopt;  // It names no address.
    for (const auto& context : contexts_) {
      for (int rank = 0; rank < getSize(); ++rank) {
        const std::string its = rank == getRank() ? "" : error_of(*context, rank);
        if (!its.empty() && error.find(its) != std::string::npos) return rank;
      }
    }
    return std::nullopt;
  }

 private:
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

// The check has connections of its own, to which LibTorch's wrapper passes nothing on.
class CheckedBackend : public c10d::ProcessGroupWrapper {
 public:
  CheckedBackend(const c10::intrusive_ptr<c10d::Backend>& backend,
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
  const auto options =
      given ? c10::make_intrusive<Options>(*given) : Options::create_default(request.timeout);
  options->timeout = request.timeout;
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  auto backend =
      c10::make_intrusive<GlooBackend>(request.store, request.rank, request.size, options);
  backend->setSequenceNumberForGroup();
  return backend;
}

c10::intrusive_ptr<c10d::Backend> make_backend_with_checks(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request) {
  BackendRequest helper = request;
  helper.store =
      c10::make_intrusive<c10d::PrefixStore>("pg_wrapper:" + request.group_name, request.store);
  helper.options = nullptr;
  return c10::make_intrusive<CheckedBackend>(backend, make_gloo_backend(helper));
}

bool is_gloo_error(std::string_view text) {
  return text.find("gloo/transport/") != text.npos || text.find("pair closure") != text.npos;
}

std::optional<int> peer_of_gloo_error(c10d::Backend& backend, const std::string& error) {
  if (auto* gloo = dynamic_cast<GlooBackend*>(&backend)) return gloo->peer_of(error);
  auto* checked = dynamic_cast<CheckedBackend*>(&backend);
  if (checked == nullptr) return std::nullopt;
  const auto peer = peer_of_gloo_error(*checked->getWrappedPg(), error);
  return peer ? peer : peer_of_gloo_error(checked->checks(), error);
}

}  // namespace distrun
