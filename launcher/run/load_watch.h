// LoadWatch reads the CPU time and memory of the running workers, once a second.
//
//     LoadWatch watch(io, workers, [&](const std::vector<WorkerLoad>& loads) { … });
//     watch.begin();
//     …
//     watch.end();       // before `workers` closes
//
// Thread safety: the thread of `io` only.
#pragma once

#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/outcome/worker_facts.h"
#include "launcher/run/worker_pool.h"

namespace distrun {

class LoadWatch {
 public:
  // `on_load` gets the running workers, and is not called if there are none.
  LoadWatch(boost::asio::io_context& io, const WorkerPool& workers,
            std::function<void(const std::vector<WorkerLoad>&)> on_load);
  LoadWatch(const LoadWatch&) = delete;
  LoadWatch& operator=(const LoadWatch&) = delete;

  void begin();
  void end();

 private:
  const WorkerPool& workers_;
  const std::function<void(const std::vector<WorkerLoad>&)> on_load_;
  bool has_ended_ = false;
  boost::asio::steady_timer timer_;
};

}  // namespace distrun
