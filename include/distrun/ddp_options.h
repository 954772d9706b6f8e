// Options of DistributedDataParallel and DdpReducer.
//
//     DistributedDataParallel ddp(net, {.bucket_cap_mb = 10, .find_unused_parameters = true});
//
// The options have the names and defaults of the arguments of
// torch.nn.parallel.DistributedDataParallel.  Only `parameters_to_ignore` is not an argument in
// Python.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/group.h"

namespace distrun {

// A device, or the index of a device of the module's device type.  For a module on CUDA, {0} and
// {at::Device("cuda:0")} mean the same.
class DeviceId {
 public:
  // Converts from an index or a device.  The conversion is implicit, so that callers can write {0}
  // or {device}.
  DeviceId(int index) : index_(index) {}             // NOLINT(google-explicit-constructor)
  DeviceId(c10::Device device) : device_(device) {}  // NOLINT(google-explicit-constructor)
  // Returns the device.  An index becomes a device of this type.
  c10::Device of_type(c10::DeviceType type) const {
    return device_ ? *device_ : c10::Device(type, static_cast<c10::DeviceIndex>(index_));
  }

 private:
  int index_ = 0;
  std::optional<c10::Device> device_;
};

// Options of DistributedDataParallel and DdpReducer.
struct DdpOptions {
  // The ranks that train together.  By default, all ranks.
  Group process_group = {};

  // The module's GPU, if the whole module is on one GPU.  forward() then moves the tensors in its
  // arguments to this GPU.  It moves tensors in all types that visit_tensors.h supports except
  // torch::OrderedDict.  It does not move tensors to which an argument only refers (unique_ptr,
  // shared_ptr, std::reference_wrapper, views).  Empty: forward() does not move tensors.
  std::vector<DeviceId> device_ids = {};

  // If true, buffers (running means, …) are broadcast from group rank 0: at construction, if
  // `init_sync` is true too, and before each forward.  They are not broadcast if the previous
  // forward did not reduce (no_sync(), or gradients disabled).  In a Join (join.h), the buffers
  // before a forward come from the highest rank that has not joined.
  //
  // Cost: each of these broadcasts sends all buffers.
  bool broadcast_buffers = true;

  // If true, the constructor compares the number, sizes and dtypes of the parameters of all ranks,
  // and broadcasts the parameters from group rank 0.  If `broadcast_buffers` is true too, it also
  // broadcasts the buffers.  If `init_sync` is false, the caller must give all ranks the same
  // values.
  bool init_sync = true;

  // The approximate size of a bucket of gradients, in MiB.  A bucket is reduced as soon as its last
  // gradient is ready.  Small buckets are ready earlier; large buckets need fewer all_reduces.  Not
  // set: 25 MiB, and 1 MiB for the first bucket.  0: one bucket for each parameter.  The first
  // backward() uses one bucket for each dtype and device.  Later calls of backward() use this
  // size.  With find_unused_parameters, but without static_graph, the first backward() uses this
  // size too.
  std::optional<double> bucket_cap_mb = std::nullopt;

  // If true, each forward searches its autograd graph for parameters that it does not use.  If this
  // option is false and a forward does not use all parameters, the next forward throws an error
  // that names the unused parameters.
  //
  // Cost: each forward walks its autograd graph, and copies its outputs.  Each backward() runs one
  // more all_reduce, of four bytes for each parameter.
  bool find_unused_parameters = false;

  // If true, gradients are views of the buckets.  If false, backward() copies each gradient to its
  // bucket and back, and the buckets need as much memory as the gradients.  With this option, set
  // gradients to zero with zero_grad() of the DistributedDataParallel; with a DdpReducer, call
  // zero_() on each gradient.  The optimizer's zero_grad() throws, because it detaches gradients in
  // place, and a view cannot be detached in place.
  bool gradient_as_bucket_view = false;

  // If true, every iteration must have the same graph.  The first iteration finds out which
  // parameters the graph uses.  With this option, the graph may use activation checkpointing, and
  // may use a parameter several times.
  //
  // Cost: the first backward() reduces gradients only at its end, not while it computes.
  bool static_graph = false;

  // If true, buckets whose parameters no rank has used are not reduced.  This option has an effect
  // only with find_unused_parameters.  It is not supported in a Join (join.h).
  bool skip_all_reduce_unused_params = false;

  // Names of parameters and buffers, as in named_parameters() and named_buffers().  These tensors
  // are not broadcast, and their gradients are not reduced.  An unknown name throws
  // c10::ValueError.
  std::set<std::string> parameters_to_ignore = {};
};

}  // namespace distrun
