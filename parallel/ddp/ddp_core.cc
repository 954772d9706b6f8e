#include "parallel/ddp/ddp_core.h"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/libtorch_versions.h"
#include "backends/group/registered_backends.h"
#include "backends/group/shared_tensors.h"
#include "distrun/process_group.h"
#include "parallel/ddp/checked_comm_hook.h"
#include "parallel/ddp/construct_reducer.h"
#include "parallel/ddp/ddp_buckets.h"
#include "parallel/ddp/mixed_precision_hook.h"
#include "parallel/ddp/model_agreement.h"
#include "parallel/ddp/model_sync.h"

namespace distrun::internal {

namespace {

using ReducerPtr = std::shared_ptr<c10d::Reducer>;

// The parameters whose gradients backward() reduces, as arguments of c10d::Reducer.
struct Gradients {
  std::vector<at::Tensor> parameters;
  std::vector<bool> sparse;
  std::unordered_map<std::size_t, std::string> names;

  explicit Gradients(const DdpModel& model) {
    for (const DdpParameter& one : model.parameters) {
      if (!one.tensor.requires_grad()) continue;
      names[parameters.size()] = one.name;
      parameters.push_back(one.tensor);
      sparse.push_back(one.sparse_gradient);
    }
  }
};

// Only a reducer constructed under TORCH_DISTRIBUTED_DEBUG=INFO or DETAIL names parameters in its
// errors; others give numbers.
class WithNamesInErrors {
 public:
  WithNamesInErrors() {
    if (before_ == c10d::DebugLevel::Off) c10d::setDebugLevel(c10d::DebugLevel::Info);
  }
  ~WithNamesInErrors() { c10d::setDebugLevel(before_); }
  WithNamesInErrors(const WithNamesInErrors&) = delete;
  WithNamesInErrors& operator=(const WithNamesInErrors&) = delete;

 private:
  c10d::DebugLevel before_ = c10d::debug_level();
};

ReducerPtr make_reducer(const Gradients& gradients,
                        const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                        const DdpOptions& options) {
  const bool graph_may_change = options.find_unused_parameters && !options.static_graph;
  const auto sizes = bucket_sizes(options.bucket_cap_mb, graph_may_change);
  auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(
      gradients.parameters, sizes.at_first, gradients.sparse));
  // Gradients arrive in about the reverse order of forward().
  std::reverse(buckets.begin(), buckets.end());
  const WithNamesInErrors named;
  return construct_reducer(gradients.parameters, std::move(buckets), group, gradients.sparse,
                           sizes.others, options.find_unused_parameters,
                           options.gradient_as_bucket_view, gradients.names, sizes.first,
                           options.skip_all_reduce_unused_params, /*use_python_reducer=*/false);
}

std::optional<c10::Device> input_device_of(const DdpModel& model, const DdpOptions& options) {
  const c10::Device first = model.parameters.front().tensor.device();
  if (options.device_ids.empty()) return std::nullopt;
  const bool on_one_device =
      std::all_of(model.parameters.begin(), model.parameters.end(),
                  [&](const DdpParameter& one) { return one.tensor.device() == first; });
  TORCH_CHECK_VALUE(options.device_ids.size() == 1, "DistributedDataParallel: device_ids has ",
                    options.device_ids.size(), " devices; expected one, or none");
  TORCH_CHECK_VALUE(on_one_device && !first.is_cpu(),
                    "DistributedDataParallel: device_ids is for a module on one GPU, but ",
                    model.name, on_one_device ? " is on the CPU" : " is on several devices");
  const c10::Device device = options.device_ids.front().of_type(first.type());
  TORCH_CHECK_VALUE(device == first, "DistributedDataParallel: device_ids has ", device, ", but ",
                    model.name, " is on ", first);
  return device;
}

// Empty with LibTorch 2.15 if a gradient is sparse, because get_grad_buckets() would throw. Errors
// in backward() then name no parameters.
std::vector<c10d::GradBucket> buckets_with_memory(const DdpCore& core) {
#if DISTRUN_LIBTORCH_SINCE(2, 15)
  const auto& all = core.model.parameters;
  const bool has_sparse = std::any_of(all.begin(), all.end(),
                                      [](const DdpParameter& one) { return one.sparse_gradient; });
  if (has_sparse) return {};
#endif
  return core.reducer->get_grad_buckets(/*return_zero_tensors=*/false);
}

// Of other dtypes, such as Float8_e5m2, LibTorch can neither compute with parameters nor sum.
void check_dtypes(const DdpMixedPrecision& dtypes) {
  constexpr std::array kKnown = {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble};
  for (const auto& one : {dtypes.param_dtype, dtypes.reduce_dtype, dtypes.buffer_dtype}) {
    TORCH_CHECK_VALUE(!one || std::find(kKnown.begin(), kKnown.end(), *one) != kKnown.end(),
                      "DistributedDataParallel: mixed_precision has the dtype ", *one,
                      "; expected Half, BFloat16, Float or Double");
  }
}

}  // namespace

DdpCore::DdpCore(DdpModel its_model, const DdpOptions& its_options) : options(its_options) {
  TORCH_CHECK_VALUE(options.process_group.is_member(), "DistributedDataParallel: rank ", get_rank(),
                    " is not in its process_group");
  check_dtypes(options.mixed_precision);
  options.process_group = pinned(options.process_group);
  group = options.process_group.process_group();
  model = participants(std::move(its_model), options.parameters_to_ignore);
  input_device = input_device_of(model, options);
  const Gradients gradients(model);
  if (options.init_sync) {
    const auto tensors = state();
    in_group([&] {
      check_agreement_of_models(gradients.parameters);
      broadcast_all(group, tensors);
    });
  }
  reducer_group = c10::make_intrusive<ReducerGroup>(
      group, CallSite{"backward() of DistributedDataParallel", options.process_group});
  reducer = make_reducer(gradients, reducer_group, options);
  name_and_share_buckets();
  make_logger();
  use_mixed_precision();
}

// Runs only the collectives of LibTorch's check, because ranks in Python run no others.
void DdpCore::check_agreement_of_models(const std::vector<at::Tensor>& parameters) {
  const auto verify = [&] {
    c10d::verify_params_across_processes(group, parameters, std::nullopt);
  };
  if (!traits_of(*group->getBackend(device().type())).needs_rendezvous()) return verify();
  NamedParameters mine;
  for (const DdpParameter& one : model.parameters) {
    if (!one.tensor.requires_grad()) continue;
    mine.push_back({one.name, c10::str(one.tensor.sizes(), " ", one.tensor.scalar_type())});
  }
  const ModelAgreement models(*group, mine);
  std::exception_ptr libtorchs;
  try {
    verify();
  } catch (const c10::DistError&) {
    throw;
  } catch (const c10::Error&) {
    libtorchs = std::current_exception();
  }
  const auto difference = models.difference(get_process_group_ranks(options.process_group));
  TORCH_CHECK(difference.empty(), "DistributedDataParallel on rank ", get_rank(),
              ": models differ between ranks: ", difference);
  if (libtorchs) std::rethrow_exception(libtorchs);
}

void DdpCore::rebuild_buckets() {
  if (reducer->rebuild_buckets()) name_and_share_buckets();
}

void DdpCore::name_and_share_buckets() {
  std::unordered_map<const c10::TensorImpl*, const std::string*> names;
  for (const DdpParameter& one : model.parameters) {
    names[one.tensor.unsafeGetTensorImpl()] = &one.name;
  }
  std::map<const void*, std::string> by_memory;
  for (const c10d::GradBucket& bucket : buckets_with_memory(*this)) {
    if (!bucket.getBuffer().defined()) continue;  // Sparse.
    share_with_group(bucket.getBuffer(), *group);
    const auto parameters = bucket.getParameters();
    std::string text;
    for (std::size_t i = 0; i < parameters.size() && i < 3; ++i) {
      const auto name = names.find(parameters[i].unsafeGetTensorImpl());
      if (name != names.end()) text += (text.empty() ? "'" : ", '") + *name->second + "'";
    }
    if (parameters.size() > 3) text += c10::str(" and ", parameters.size() - 3, " more");
    by_memory[bucket.getBuffer().const_data_ptr()] = text;
  }
  reducer_group->set_names(std::move(by_memory));
}

void DdpCore::make_logger() {
  logger = std::make_shared<c10d::Logger>(reducer);
  reducer->set_logger(logger);
  const std::vector<int> ids =
      input_device ? std::vector<int>{input_device->index()} : std::vector<int>();
  logger->set_construction_data_and_log(model.name, ids, ids.empty() ? -1 : ids.front(),
                                        options.broadcast_buffers, /*has_sync_bn=*/false,
                                        options.static_graph);
  if (!options.static_graph) return;
  reducer->set_static_graph();
  logger->set_static_graph();
}

// The first iteration of a static graph reduces everything at its end: only then does the reducer
// know how often each parameter is used.
std::function<void()> DdpCore::as_backward_begins() const {
  if (!options.static_graph) return [] {};
  return [weak = std::weak_ptr(reducer), its_delayed = delayed] {
    if (*its_delayed) return;
    torch::autograd::Engine::get_default_engine().queue_callback([weak] {
      if (const auto alive = weak.lock()) alive->delay_all_reduce();
    });
    *its_delayed = true;
  };
}

std::vector<DdpBuffer> DdpCore::buffers_to_sync() const {
  if (!sync_buffers || !options.broadcast_buffers || !model.buffers) return {};
  return model.buffers();
}

void DdpCore::use_mixed_precision() {
  const DdpMixedPrecision& dtypes = options.mixed_precision;
  if (dtypes.buffer_dtype && model.buffers) {
    for (DdpBuffer& one : model.buffers()) {
      if (one.tensor.is_floating_point()) one.tensor.set_data(one.tensor.to(*dtypes.buffer_dtype));
    }
  }
  const auto sent = dtypes.reduce_dtype ? dtypes.reduce_dtype : dtypes.param_dtype;
  for (const DdpParameter& one : model.parameters) {
    const bool has_gradient = one.tensor.requires_grad() && one.tensor.is_floating_point();
    if (!sent || !has_gradient || one.tensor.scalar_type() == *sent) continue;
    TORCH_CHECK_VALUE(!one.sparse_gradient,
                      "DistributedDataParallel: mixed_precision would reduce the gradient of the "
                      "parameter '",
                      one.name, "', which is sparse, as ", *sent, "; set reduce_dtype to ",
                      one.tensor.scalar_type());
    converts_gradients = true;
  }
  if (converts_gradients) {
    reducer->register_comm_hook(
        checked_comm_hook(mixed_precision_hook(reducer_group, *sent), "mixed_precision"));
    logger->set_comm_hook("mixed_precision");
  }
  if (!dtypes.param_dtype) return;
  std::vector<at::Tensor> parameters;
  parameters.reserve(model.parameters.size());
  for (const DdpParameter& one : model.parameters) parameters.push_back(one.tensor);
  low_precision = std::make_shared<LowPrecision>(parameters, *dtypes.param_dtype);
}

std::vector<at::Tensor> DdpCore::state() const {
  if (low_precision) low_precision->restore();
  std::vector<at::Tensor> tensors;
  for (const DdpParameter& one : model.parameters) tensors.push_back(one.tensor.detach());
  if (!options.broadcast_buffers || !model.buffers) return tensors;
  for (const DdpBuffer& one : model.buffers()) tensors.push_back(one.tensor.detach());
  return tensors;
}

}  // namespace distrun::internal
