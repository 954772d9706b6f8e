#include "distrun/trace.h"

#include <utility>

#include <ATen/autocast_mode.h>

#include "parallel/trace/trace_recorder.h"
#include "parallel/trace/trace_replay.h"
#include "parallel/trace/trace_text.h"

namespace distrun {

namespace {

// Disables autocast's cache: an earlier cast would become a constant.
class WithoutCastCache {
 public:
  WithoutCastCache() { at::autocast::set_autocast_cache_enabled(false); }
  ~WithoutCastCache() { at::autocast::set_autocast_cache_enabled(was_enabled_); }
  WithoutCastCache(const WithoutCastCache&) = delete;
  WithoutCastCache& operator=(const WithoutCastCache&) = delete;

 private:
  const bool was_enabled_ = at::autocast::is_autocast_cache_enabled();
};

}  // namespace

std::string Trace::str() const { return internal::text_of(*graph_); }

std::vector<at::Tensor> Trace::replay(const std::vector<at::Tensor>& inputs) const {
  return internal::replay(*graph_, inputs);
}

Trace trace(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& function,
            const std::vector<at::Tensor>& inputs) {
  internal::check_inputs("trace", inputs);
  const auto recorder = std::make_shared<internal::TraceRecorder>();
  for (const at::Tensor& one : inputs) recorder->add_input(one);
  {
    const WithoutCastCache no_cache;
    const internal::RecorderScope scope(recorder);
    recorder->finish(function(inputs));
  }
  return Trace(recorder->take_graph());
}

}  // namespace distrun
