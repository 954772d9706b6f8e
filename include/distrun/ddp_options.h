// Options of DistributedDataParallel and DdpReducer.
//
//     DistributedDataParallel ddp(net, {.bucket_cap_mb = 10, .find_unused_parameters = true});
//
// The options have the names and defaults of the arguments of
// torch.nn.parallel.DistributedDataParallel.  The exception is `parameters_to_ignore`, which is not
// an argument in Python.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "distrun/group.h"

namespace distrun {

// A device, or the index of a device.  An index refers to a device of the module's device type: for
// a module on CUDA, {0} and {at::Device("cuda:0")} mean the same.
class DeviceId {
 public:
  // Converts from an index or a device.  The conversion is implicit, so that callers can write {0}
  // or {device}.
  DeviceId(int index) : index_(index) {}             // NOLINT(google-explicit-constructor)
  DeviceId(c10::Device device) : device_(device) {}  // NOLINT(google-explicit-constructor)
  // Returns the device.  If this object contains an index, returns the device of type `type` with
  // this index.
  c10::Device of_type(c10::DeviceType type) const {
    return device_ ? *device_ : c10::Device(type, static_cast<c10::DeviceIndex>(index_));
  }

 private:
  int index_ = 0;
  std::optional<c10::Device> device_;
};

// The dtypes of a computation (DdpOptions::mixed_precision).  They apply to tensors of
// floating-point numbers.  Each of them must be Half, BFloat16, Float or Double.  A dtype that is
// not set is the dtype that the tensors have.
struct DdpMixedPrecision {
  // The dtype of the parameters while forward() or backward() runs, and so of the computation.  The
  // DistributedDataParallel also converts the arguments of forward() to this dtype, but not its
  // results.  The module gets a copy of each tensor that it converts.  If the module changes this
  // copy in place, the caller's tensor keeps its values.
  std::optional<at::ScalarType> param_dtype = std::nullopt;
  // The dtype in which gradients are sent and summed.  If it is not set, it is `param_dtype`.
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
  // The dtype of the buffers.  The constructor converts them once.  They keep this dtype.
  //
  // If the module has a BatchNorm on the CPU, set `buffer_dtype` to `param_dtype`.  Otherwise
  // forward() throws LibTorch's error "expected scalar type BFloat16 but found Float".
  std::optional<at::ScalarType> buffer_dtype = std::nullopt;
};

// Options of DistributedDataParallel and DdpReducer.
struct DdpOptions {
  // The ranks that train together.  The default is all ranks.
  Group process_group = {};

  // The module's GPU, as a list with one element.  Set this option only if the whole module is on
  // one GPU.  forward() then moves the tensors in its arguments to this GPU.  This applies to
  // arguments of all types that visit_tensors.h supports, except torch::OrderedDict.  If an
  // argument only refers to tensors (unique_ptr, shared_ptr, std::reference_wrapper, views), these
  // tensors are not moved.
  //
  // If the list is empty, forward() does not move tensors.
  std::vector<DeviceId> device_ids = {};

  // If true, buffers (running means, …) are broadcast from group rank 0 before each forward.  If
  // `init_sync` is true too, buffers are also broadcast at construction.  If a forward runs under
  // no_sync() or with gradients disabled, no buffers are broadcast before the next forward.  In a
  // Join (join.h), each broadcast before a forward sends the buffers of the highest rank that has
  // not joined.
  //
  // Cost: each of these broadcasts sends all buffers.
  bool broadcast_buffers = true;

  // If true, the constructor compares the number, sizes and dtypes of the parameters of all ranks,
  // and then broadcasts the parameters from group rank 0.  If `broadcast_buffers` is true too, the
  // constructor also broadcasts the buffers.  If `init_sync` is false, the caller must give the
  // model the same values on all ranks.
  bool init_sync = true;

  // The approximate size of a bucket of gradients, in MiB.  A bucket is reduced as soon as its last
  // gradient is ready.  Small buckets are ready earlier, and large buckets need fewer all_reduces.
  // If `bucket_cap_mb` is not set, the size is 1 MiB for the first bucket and 25 MiB for the other
  // buckets.  If it is 0, each parameter has its own bucket.
  //
  // The first backward() uses one bucket for each dtype and device.  With find_unused_parameters
  // and without static_graph, it uses this size instead.  Later calls of backward() always use this
  // size.
  std::optional<double> bucket_cap_mb = std::nullopt;

  // Set this option to true if a forward may leave parameters unused.  Each forward then searches
  // its autograd graph for unused parameters.  If this option is false and a forward does not use
  // all parameters, the next forward throws an error that names the unused parameters.
  //
  // Cost: each forward walks its autograd graph, and copies its outputs.  Each backward() runs one
  // additional all_reduce, which has four bytes for each parameter.
  bool find_unused_parameters = false;

  // If true, gradients are views of the buckets.  If false, backward() copies each gradient to its
  // bucket and back, and the buckets need as much memory as the gradients.  The backend shm reduces
  // buckets in place in both cases.
  //
  // If this option is true, set gradients to zero with zero_grad() of the DistributedDataParallel.
  // With a DdpReducer, call zero_() on each gradient.  The optimizer's zero_grad() throws, because
  // it detaches gradients in place, and a view cannot be detached in place.
  bool gradient_as_bucket_view = false;

  // If true, every iteration must have the same graph.  DistributedDataParallel finds out in the
  // first iteration which parameters the graph uses.  If this option is true, the graph may use
  // activation checkpointing, and may use a parameter several times.
  //
  // The first forward must not run under no_sync().  Its backward() would throw an internal error
  // of LibTorch ("expect_autograd_hooks_ INTERNAL ASSERT FAILED"), as in Python.
  //
  // Cost: the first backward() reduces no gradient before it has computed all of them.
  bool static_graph = false;

  // If true, a bucket is not reduced if no rank has used a parameter of this bucket.  This option
  // requires find_unused_parameters, and otherwise has no effect.  It is not supported in a Join
  // (join.h).
  bool skip_all_reduce_unused_params = false;

  // Names of parameters and buffers, as in named_parameters() and named_buffers().  These tensors
  // are not broadcast, and their gradients are not reduced.  If a name is unknown, the constructor
  // throws c10::ValueError.
  std::set<std::string> parameters_to_ignore = {};

  // The dtypes in which the ranks compute and send.
  //
  //     DistributedDataParallel ddp(net, {.mixed_precision = {.param_dtype = at::kBFloat16}});
  //
  // grad() always has the parameter's own dtype, and gradients accumulate in it.  (In Python, they
  // accumulate in `param_dtype`.)  If the dtype in which gradients are sent differs from a
  // parameter's dtype, you cannot register a communication hook, gradients cannot be sparse, and in
  // a Join (join.h) "divide_by_initial_world_size" must be true.  The ranks then sum the gradients
  // first and divide the sum, as in Python.
  //
  // The parameters have `param_dtype` only while forward() or backward() runs.  Between the two,
  // you can save, load and update the parameters.  (In Python, they have `param_dtype` then.)  A
  // change during forward() or backward() is lost.  For this reason, `param_dtype` excludes
  // apply_optimizer_in_backward().
  //
  // With `param_dtype`, backward() must start from the results of forward().  If the module stores
  // another loss in a member, return this loss from forward() too.  Otherwise backward() can use
  // parameters in their own dtype, and throws LibTorch's error that dtypes differ.
  //
  // Several DistributedDataParallels can have the same parameters.  If their `param_dtype` differs,
  // run a backward() for each of them.  One backward() for several of them throws c10::ValueError.
  //
  // Cost: `param_dtype` needs a copy of all parameters in each forward.  The copy exists until
  // backward() has ended, or until the results of the forward are destroyed.  A second backward()
  // of the same graph copies the parameters again.  Another dtype for sending needs a copy of each
  // bucket.
  DdpMixedPrecision mixed_precision = {};
};

}  // namespace distrun
