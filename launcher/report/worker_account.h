// worker_account tells in a few lines why a worker failed: what its error file says, where that
// was, and the last lines it wrote.
//
//     error: ValueError: no such digit: 11
//       File "train.py", line 31, in load
//         raise ValueError(f"no such digit: {digit}")
//     last lines:
//       epoch 3 loss 0.0312
//     log: logs/none_x3a/attempt_0/1
//
// Of a Python traceback the last calls are shown, of a C++ backtrace the first: both where the
// error is.  What a worker has also written to stderr, as Python does with its traceback, is not
// told twice.  Whatever a worker has written is shown in lines that a terminal takes.  Pure.
#pragma once

#include <cstddef>
#include <string>

#include "launcher/outcome/run_report.h"

namespace distrun {

struct AccountBounds {
  std::size_t error_lines = 5;
  std::size_t call_lines = 6;
  std::size_t output_lines = 12;
};

// Lines that begin with `indent`; empty where there is nothing to tell.
std::string worker_account(const WorkerReport& worker, const AccountBounds& bounds,
                           const std::string& indent);

}  // namespace distrun
