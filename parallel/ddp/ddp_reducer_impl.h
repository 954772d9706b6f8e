// What a DdpReducer has.  For ddp_reducer.cc, and ddp_join_hook.cc, where it works for others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "backends/group/run_collective.h"
#include "distrun/ddp_reducer.h"

namespace distrun {

struct DdpReducer::Impl {
  DdpModel model;
  DdpOptions options;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::optional<c10::Device> input_device;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;                      // Before the reducer in death.
  std::shared_ptr<int> no_syncs = std::make_shared<int>(0);  // Guards that live.
  std::shared_ptr<bool> delayed = std::make_shared<bool>(false);
  // Of a static graph: the others have made their first backward, and this rank had joined.
  bool has_missed_learning = false;
  bool sync_buffers = true;  // The last forward was synchronized, or there was none.
  bool divide_by_initial_world_size = true;  // As the last join has it.

  Impl(DdpModel its_model, const DdpOptions& its_options);

  void make_logger();
  bool needs_sink() const {
    return options.static_graph ? !*delayed : options.find_unused_parameters;
  }
  std::function<void()> as_backward_begins() const;

  // The buffers that the next forward synchronizes.
  std::vector<DdpBuffer> buffers_to_sync() const;
  // Of the ranks that are candidates the greatest, by group rank.  A collective.
  int agree_on_source(bool is_candidate) const;
  // Parameters, and buffers where these are synchronized.
  std::vector<at::Tensor> state() const;
  // The ranks in a join agree whether backward() will reduce: it does where it does on any.  A
  // collective, under way when it returns; `sum` is above zero then.
  struct Agreement {
    at::Tensor sum;
    Work work;
  };
  Agreement agree_on_reducing(bool backward_reduces) const;
  // Under way while forward() is, to be waited for before others; nothing: there is no join.
  std::optional<Agreement> agreement;
  // Throws where another rank's backward will reduce, and this one's will not.
  void check_agreement();

  // The backward of a forward that is made now.
  bool will_reduce() const { return c10::GradMode::is_enabled() && *no_syncs == 0; }
  c10::Device device() const { return model.parameters.front().tensor.device(); }

  // A peer that is gone is the error that it is in our collectives; ranks that differ, and the
  // like, are as LibTorch says it.
  void in_group(const std::function<void()>& act) const {
    internal::in_group({"DistributedDataParallel", options.process_group}, act);
  }

  // Errors of this object, which are to be found in the logging data.
  template <class Act>
  void logged(const Act& act) const {
    try {
      act();
    } catch (const c10::Error& error) {
      logger->set_error_and_log(error.what_without_backtrace());
      throw;
    }
  }
};

}  // namespace distrun
