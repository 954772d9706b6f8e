// Options of DistributedDataParallel and DdpReducer: the arguments of
// torch.nn.parallel.DistributedDataParallel, with the same names and defaults.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/group.h"

namespace distrun {

// A device, or the index of one of the module's type: {0}, {at::Device("cuda:0")}.
class DeviceId {
 public:
  // Converts from either.
  DeviceId(int index) : index_(index) {}             // NOLINT: is written {0}.
  DeviceId(c10::Device device) : device_(device) {}  // NOLINT: as is {device}.
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

  // For a module on one GPU: that GPU.  forward() moves the tensors in its arguments there, as far
  // as visit_tensors.h finds them.  Empty: they are not moved.
  std::vector<DeviceId> device_ids = {};

  // Broadcast buffers (running means, …) from the group's rank 0 at construction and before each
  // forward.
  bool broadcast_buffers = true;

  // At construction, check that parameters have the same sizes on all ranks, and broadcast them
  // from the group's rank 0.  If false, the caller does this.
  bool init_sync = true;

  // The approximate size in MiB of the buckets in which gradients are reduced, each as soon as its
  // last gradient is ready.  Not set: 25, and 1 for the first.  0: one bucket per parameter.
  std::optional<double> bucket_cap_mb = std::nullopt;

  // Search each forward's graph for parameters that it does not use.  If false, such a forward
  // makes the next one throw an error that names them.
  bool find_unused_parameters = false;

  // Make gradients views of the buckets, which saves a copy and as much memory as the parameters
  // take.  Zero them with ddp.zero_grad(): the optimizer's zero_grad() detaches them first, which a
  // view refuses.
  bool gradient_as_bucket_view = false;

  // Assume that every iteration has the same graph, and learn in the first which parameters it
  // uses.  Allows checkpointing and parameters that are used several times.
  bool static_graph = false;

  // With find_unused_parameters: do not reduce buckets that no rank used.  Not supported with
  // uneven inputs (join.h).
  bool skip_all_reduce_unused_params = false;

  // Parameters and buffers that are neither synchronized nor reduced, named as in
  // named_parameters() and named_buffers().
  std::set<std::string> parameters_to_ignore = {};
};

}  // namespace distrun
