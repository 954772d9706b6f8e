#include "backends/fake/fake_backend.h"

#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "backends/fake/fake_tensors.h"
#include "backends/fake/fake_work.h"
#include "distrun/fake.h"

namespace distrun::internal {

using c10d::OpType;

FakeBackend::FakeBackend(int rank, int size, c10::intrusive_ptr<FakeOptions> options)
    : Backend(rank, size), options_(std::move(options)), model_(rank, size) {}

void FakeBackend::check_alive(const char* name) const {
  TORCH_CHECK(!is_aborted_, name, ": the group has been aborted");
}

void FakeBackend::begin_collective(const char* name) {
  check_alive(name);
  TORCH_CHECK(!options_->error_on_collective, name,
              " fails: the group was created with FakeOptions::error_on_collective");
}

void FakeBackend::check_rank(const char* name, const char* what, std::int64_t rank) const {
  TORCH_CHECK(0 <= rank && rank < getSize(), name, ": the ", what, " is ", rank, "; expected 0 to ",
              getSize() - 1);
}

void FakeBackend::check_count(const char* name, const char* what, std::size_t count,
                              int expected) const {
  TORCH_CHECK(count == static_cast<std::size_t>(expected), name, ": there are ", count, " ", what,
              "; expected ", expected);
}

void FakeBackend::check_times_size(const char* name, const at::Tensor& large,
                                   const at::Tensor& small) const {
  check_dtype(name, large, small);
  TORCH_CHECK(large.numel() == small.numel() * getSize(), name, ": the larger tensor has sizes ",
              large.sizes(), "; expected ", getSize(), " times the elements of ", small.sizes());
}

void FakeBackend::check_splits(const char* what, const at::Tensor& tensor,
                               const std::vector<std::int64_t>& sizes) const {
  constexpr const char* kName = "all_to_all_single";
  TORCH_CHECK(tensor.dim() > 0, kName, ": the ", what,
              " is a scalar; expected a tensor with at least one dimension");
  if (sizes.empty()) {
    TORCH_CHECK(tensor.size(0) % getSize() == 0, kName, ": the first dimension of the ", what,
                " is ", tensor.size(0), "; expected a multiple of ", getSize(),
                " ranks, or explicit split sizes");
    return;
  }
  check_count(kName, "split sizes", sizes.size(), getSize());
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  TORCH_CHECK(sum == tensor.size(0), kName, ": the split sizes of the ", what, " add up to ", sum,
              "; expected ", tensor.size(0), ", its first dimension");
}

FakeBackend::WorkPtr FakeBackend::done(const Done& what, TensorLists outputs) {
  traffic_.add(what.name, what.payload, what.wire);
  const std::uint64_t number = c10d::isP2POp(what.type) ? collectives_.load() : ++collectives_;
  return c10::make_intrusive<FakeWork>(getRank(), what.type, number, what.source,
                                       std::move(outputs));
}

FakeBackend::WorkPtr FakeBackend::send(Tensors& tensors, int to, int /*tag*/) {
  check_alive("send");
  check_rank("send", "destination", to);
  const std::int64_t bytes = bytes_of(tensors);
  return done({"send", OpType::SEND, bytes, {.sent = bytes}}, {tensors});
}

FakeBackend::WorkPtr FakeBackend::recv(Tensors& tensors, int from, int /*tag*/) {
  check_alive("recv");
  check_rank("recv", "source", from);
  const std::int64_t bytes = bytes_of(tensors);
  return done({"recv", OpType::RECV, bytes, {.received = bytes}, from}, {tensors});
}

FakeBackend::WorkPtr FakeBackend::recvAnysource(Tensors& tensors, int /*tag*/) {
  check_alive("recv");
  const std::int64_t bytes = bytes_of(tensors);
  return done(
      {"recv", OpType::RECVANYSOURCE, bytes, {.received = bytes}, (getRank() + 1) % getSize()},
      {tensors});
}

FakeBackend::WorkPtr FakeBackend::barrier(const c10d::BarrierOptions& /*options*/) {
  begin_collective("barrier");
  return done({"barrier", OpType::BARRIER}, {});
}

void FakeBackend::monitoredBarrier(const c10d::BarrierOptions& /*options*/,
                                   bool /*wait_all_ranks*/) {
  begin_collective("monitored_barrier");
  done({"monitored_barrier", OpType::BARRIER}, {});
}

FakeBackend::WorkPtr FakeBackend::endCoalescing() {
  begin_collective("end_coalescing");
  return c10::make_intrusive<FakeWork>(getRank(), OpType::COALESCED, collectives_.load(),
                                       /*source=*/-1, TensorLists());
}

namespace {

void check_fake_options(const BackendOptions& options) {
  const auto* given = options.pointer().get();
  TORCH_CHECK_TYPE(given == nullptr || dynamic_cast<const FakeOptions*>(given) != nullptr,
                   "the options of a fake group are distrun::FakeOptions");
}

class FakeTraits : public BackendTraits {
 public:
  void check_options(const BackendOptions& options) const override { check_fake_options(options); }
  bool needs_rendezvous() const override { return false; }
  c10::intrusive_ptr<c10d::Store> store_without_rendezvous() const override {
    return c10::make_intrusive<FakeStore>();
  }
};

}  // namespace

std::shared_ptr<const BackendTraits> fake_traits() { return std::make_shared<FakeTraits>(); }

c10::intrusive_ptr<c10d::Backend> make_fake_backend(const BackendRequest& request) {
  check_fake_options(request.options);
  const auto given = c10::dynamic_intrusive_pointer_cast<FakeOptions>(request.options);
  const auto options =
      given ? c10::make_intrusive<FakeOptions>(*given) : c10::make_intrusive<FakeOptions>();
  options->timeout = request.timeout;
  options->group_name = request.group_name;
  options->global_ranks_in_group.assign(request.ranks.begin(), request.ranks.end());
  return c10::make_intrusive<FakeBackend>(request.rank, request.size, options);
}

}  // namespace distrun::internal
