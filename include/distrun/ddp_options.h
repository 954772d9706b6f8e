// How DistributedDataParallel works: the arguments of torch.nn.parallel.DistributedDataParallel,
// under their names and with their defaults.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/group.h"

namespace distrun {

// A device, or the number of one of those that the module lies on: {0}, {at::Device("cuda:0")}.
class DeviceId {
 public:
  DeviceId(int index) : index_(index) {}             // NOLINT: is written {0}.
  DeviceId(c10::Device device) : device_(device) {}  // NOLINT: as is {device}.
  // The device meant, of a module that lies on devices of this type.
  c10::Device of_type(c10::DeviceType type) const {
    return device_ ? *device_ : c10::Device(type, static_cast<c10::DeviceIndex>(index_));
  }

 private:
  int index_ = 0;
  std::optional<c10::Device> device_;
};

struct DdpOptions {
  // The ranks that train together.  Default: all.
  Group process_group = {};

  // Of a module on one GPU, that GPU: the tensors among the arguments of forward() are moved there,
  // those that visit_tensors.h finds.  Empty: they stay where they are.
  std::vector<DeviceId> device_ids = {};

  // When it is made, and before each forward, the ranks get the buffers (running means, …) that the
  // group's rank 0 has.
  bool broadcast_buffers = true;

  // When it is made, parameters are checked to have the same shapes on all ranks, and get the
  // values that the group's rank 0 has.  Without, that is up to the caller.
  bool init_sync = true;

  // Gradients are reduced in buckets of about this size in MiB, each as soon as its last gradient
  // is there.  Not given: 25, the first 1.  0: a bucket for each parameter.
  std::optional<double> bucket_cap_mb = std::nullopt;

  // Some parameters take no part in some forwards: those are found, by a walk through the graph.
  // Without it, such a forward makes the next one an error that names the parameters.
  bool find_unused_parameters = false;

  // Gradients are views of the buckets: saves a copy, and memory as large as the parameters.
  // Zero them by ddp.zero_grad(), not by the optimizer's zero_grad(): that detaches them first,
  // which a view refuses.
  bool gradient_as_bucket_view = false;

  // The graph is the same in every iteration: which parameters are used, and how often, is learned
  // in the first.  Allows checkpointing and parameters that are used several times.
  bool static_graph = false;

  // With find_unused_parameters: no communication for buckets that no rank has used.  Not for ranks
  // with uneven inputs (join.h).
  bool skip_all_reduce_unused_params = false;

  // Names, as named_parameters() and named_buffers() have them, of what is neither synchronized nor
  // reduced.
  std::set<std::string> parameters_to_ignore = {};
};

}  // namespace distrun
