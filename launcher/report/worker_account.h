// worker_account says in a few lines why a worker failed: its error, calls and last output.
//
//     error: ValueError: no such digit: 11
//       File "train.py", line 31, in load
//         raise ValueError(f"no such digit: {digit}")
//     last lines:
//       epoch 3 loss 0.0312
//     log: logs/none_x3a/attempt_0/1
//
// It shows the calls nearest to the error, and an error that the last lines repeat only once.
// Control characters are escaped. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/outcome/run_report.h"

namespace distrun {

struct AccountBounds {
  std::size_t error_lines = 5;
  std::size_t call_lines = 6;
  std::size_t output_lines = 12;
  // The user has just read last_output: an error in it takes one line.
  bool below_output = false;
};

// Lines that start with `indent`; may be empty.
std::string worker_account(const WorkerReport& worker, const AccountBounds& bounds,
                           const std::string& indent);

}  // namespace distrun
