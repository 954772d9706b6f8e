// Options of DistributedDataParallel and DdpReducer: arguments of
// torch.nn.parallel.DistributedDataParallel, with the same names and defaults, and
// `parameters_to_ignore`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/group.h"

namespace distrun {

// A device, or the index of a device of the module's device type: {0}, {at::Device("cuda:0")}.
class DeviceId {
 public:
  // Converts from an index or a device.  The conversion is implicit, so that callers can write {0}
  // or {device}.
  DeviceId(int index) : index_(index) {}             // NOLINT(google-explicit-constructor)
  DeviceId(c10::Device device) : device_(device) {}  // NOLINT(google-explicit-constructor)
  // Returns the device, for a module on devices of this type.
  c10::Device of_type(c10::DeviceType type) const {
    return device_ ? *device_ : c10::Device(type, static_cast<c10::DeviceIndex>(index_));
  }

 private:
  int index_ = 0;
  std::optional<c10::Device> device_;
};

// Options of DistributedDataParallel and DdpReducer.
struct DdpOptions {
  // The ranks that train together.  Default: all.
  Group process_group = {};

  // If the whole module is on one GPU: that GPU.  forward() then moves the tensors in its arguments
  // to this GPU, in all types that visit_tensors.h supports except torch::OrderedDict.  It does not
  // move tensors that an argument only refers to (unique_ptr, shared_ptr, std::reference_wrapper,
  // views).  Empty: forward() does not move tensors.
  std::vector<DeviceId> device_ids = {};

  // Broadcast buffers (running means, …) from the group's rank 0 at construction, if `init_sync` is
  // true, and before each forward, unless the previous forward did not reduce (no_sync(), or
  // gradients disabled).  In a Join (join.h), the buffers before a forward come from the highest
  // rank that has not joined.
  bool broadcast_buffers = true;

  // At construction, compare the number, sizes and dtypes of the parameters of all ranks, and
  // broadcast parameters, and with `broadcast_buffers` also buffers, from the group's rank 0.  If
  // false, the caller must give all ranks the same values.
  bool init_sync = true;

  // The approximate size in MiB of a bucket of gradients.  A bucket is reduced as soon as its last
  // gradient is ready.  Not set: 25 MiB, and 1 MiB for the first bucket.  0: one bucket per
  // parameter.
  std::optional<double> bucket_cap_mb = std::nullopt;

  // Search the graph of each forward for parameters that the forward does not use.  If this option
  // is false and a forward does not use all parameters, the next forward throws an error that names
  // the unused parameters.
  bool find_unused_parameters = false;

  // Make gradients views of the buckets.  This saves a copy, and as much memory as the parameters
  // need.  Set gradients to zero with zero_grad() of the DistributedDataParallel; with a
  // DdpReducer, call zero_() on each gradient.  The optimizer's zero_grad() throws, because it
  // detaches gradients in place, and a view cannot be detached in place.
  bool gradient_as_bucket_view = false;

  // Assume that every iteration has the same graph.  The first iteration finds out which parameters
  // the graph uses.  A static graph may use activation checkpointing, and may use a parameter
  // several times.
  bool static_graph = false;

  // With find_unused_parameters: do not reduce buckets whose parameters no rank has used.  Not
  // supported in a Join (join.h).
  bool skip_all_reduce_unused_params = false;

  // The names of parameters and buffers that are not broadcast and whose gradients are not reduced,
  // as in named_parameters() and named_buffers().
  std::set<std::string> parameters_to_ignore = {};
};

}  // namespace distrun
