// TorchVersion asks Python which version of PyTorch it has, without importing PyTorch.
//
//     TorchVersion torch(environment);      // Python starts.
//     …
//     torch.result()                        // "2.13.0+cu130"
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "common/os/unique_fd.h"
#include "launcher/process/worker_process.h"

namespace distrun {

inline constexpr std::chrono::milliseconds kTorchVersionMax = std::chrono::seconds(2);

class TorchVersion {
 public:
  // Of the Python that runs the workers: PYTHON_EXEC or python3.
  explicit TorchVersion(const Environment& environment,
                        std::chrono::milliseconds limit = kTorchVersionMax);
  ~TorchVersion();  // Ends Python.
  TorchVersion(const TorchVersion&) = delete;
  TorchVersion& operator=(const TorchVersion&) = delete;

  // Empty without Python or PyTorch; nullopt if Python has not answered `limit` after its start.
  // Call it once.
  std::optional<std::string> result();

 private:
  void start(const Environment& environment);
  void end();

  const std::chrono::steady_clock::time_point deadline_;
  UniqueFd answer_;  // Of Python, if it has started.
  WorkerProcess python_;
  bool is_asked_ = false;
  std::optional<std::string> without_answer_ = "";  // If it is not asked.
};

}  // namespace distrun
