// The parts of a DdpReducer: the model, LibTorch's Reducer and logger, and the state between a
// forward and its backward.
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
#include "distrun/ddp_model.h"
#include "distrun/ddp_options.h"
#include "distrun/process_group.h"
#include "distrun/work.h"
#include "parallel/ddp/low_precision.h"
#include "parallel/ddp/reducer_group.h"
#include "parallel/ddp/unused_parameters.h"

namespace distrun::internal {

// Whether backward() will reduce on any rank of a join.
struct ReducingAgreement {
  at::Tensor sum;  // Above zero if it will; valid after `work`.
  Work work;
};

struct DdpCore {
  DdpModel model;
  DdpOptions options;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::optional<c10::Device> input_device;
  c10::intrusive_ptr<ReducerGroup> reducer_group;
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;                      // Destroyed before the reducer.
  std::shared_ptr<int> no_syncs = std::make_shared<int>(0);  // The number of no_sync() guards.
  std::shared_ptr<bool> delayed = std::make_shared<bool>(false);
  std::shared_ptr<LowPrecision> low_precision;  // Null if parameters keep their dtype.
  bool converts_gradients = false;              // For their reduction.
  // With a static graph: this rank had joined before the other ranks' first backward.
  bool has_missed_learning = false;
  bool optimizer_in_backward = false;  // The communication hook updates parameters.
  // Of an object that hooks of hook_with_zero_step() own. They need the end of backward().
  std::weak_ptr<const void> zero_hooks;
  bool sync_buffers = true;                  // The last forward was synchronized, or none has run.
  bool divide_by_initial_world_size = true;  // Set by the last join.
  // Runs during forward(), and ends before other collectives. Empty outside a join.
  std::optional<ReducingAgreement> agreement;

  // Every rank of the group must construct one.
  DdpCore(DdpModel its_model, const DdpOptions& its_options);

  bool needs_sink() const {
    return options.static_graph ? !*delayed : options.find_unused_parameters;
  }
  std::function<void()> as_backward_begins() const;

  void rebuild_buckets();

  std::vector<DdpBuffer> buffers_to_sync() const;
  // The parameters, and the buffers if they are synchronized.
  std::vector<at::Tensor> state() const;

  // Whether the backward of the running forward will reduce.
  bool will_reduce() const { return c10::GradMode::is_enabled() && *no_syncs == 0; }
  c10::Device device() const { return model.parameters.front().tensor.device(); }

  // Reports a lost peer like our collectives. Keeps LibTorch's other errors, such as for models
  // that differ.
  void in_group(const std::function<void()>& act) const {
    internal::in_group({"DistributedDataParallel", options.process_group}, act);
  }

  // Adds the error to the logging data.
  template <class Act>
  void logged(const Act& act) const {
    try {
      act();
    } catch (const c10::Error& error) {
      logger->set_error_and_log(error.what_without_backtrace());
      throw;
    }
  }

  // Like logged(), but replaces LibTorch's advice about unused parameters.
  template <class Act>
  void logged_in_cpp_words(const Act& act) const {
    logged([&] {
      try {
        act();
      } catch (const c10::Error& error) {
        const auto advice = advice_on_unused_parameters(error.what_without_backtrace(), options);
        if (!advice) throw;
        TORCH_CHECK(false, "DistributedDataParallel on rank ", get_rank(), ": ", *advice);
      }
    });
  }

 private:
  void check_agreement_of_models(const std::vector<at::Tensor>& parameters);
  // Of buckets that were made anew.
  void name_and_share_buckets();
  void make_logger();
  void use_mixed_precision();
};

}  // namespace distrun::internal
