#include "backends/gloo.h"

#include <csignal>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>

namespace distrun {

namespace {

// Gloo writes to sockets whose other end may be gone.  In Python that is an error of the write, for
// Python ignores SIGPIPE; a C++ program would be killed by it instead of being told.
void let_writes_fail() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request) {
  let_writes_fail();
  using Options = c10d::ProcessGroupGloo::Options;
  auto options = c10::dynamic_intrusive_pointer_cast<Options>(request.options);
  TORCH_CHECK_TYPE(options || !request.options,
                   "the options of a gloo group are c10d::ProcessGroupGloo::Options");
  if (!options) options = Options::create_default(request.timeout);
  options->timeout = request.timeout;
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(request.store, request.rank,
                                                             request.size, options);
  backend->setSequenceNumberForGroup();
  return backend;
}

namespace {

// LibTorch's forgets its own group when a timeout is set.
class CheckedBackend : public c10d::ProcessGroupWrapper {
 public:
  CheckedBackend(const c10::intrusive_ptr<c10d::Backend>& backend,
                 c10::intrusive_ptr<c10d::Backend> checks)
      : ProcessGroupWrapper(backend, checks), checks_(std::move(checks)) {}

  void setTimeout(std::chrono::milliseconds timeout) override {
    getWrappedPg()->setTimeout(timeout);
    checks_->setTimeout(timeout);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> checks_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_checked_backend(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request) {
  BackendRequest helper = request;
  helper.store =
      c10::make_intrusive<c10d::PrefixStore>("pg_wrapper:" + request.group_name, request.store);
  helper.options = nullptr;
  return c10::make_intrusive<CheckedBackend>(backend, make_gloo_backend(helper));
}

}  // namespace distrun
