// Reads the facts of an engine from variables.
//
//     FactReader read(environment, "Slurm");
//     facts.task = read.number("SLURM_PROCID", 0);
//     if (read.error()) return *read.error();
//
// Keeps the first error. Pure.
#pragma once

#include <optional>
#include <string>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/engines/engine_facts.h"

namespace distrun {

inline constexpr int kTasksMax = 1'000'000;

class FactReader {
 public:
  FactReader(const Environment& environment, std::string engine);

  // Of at least `min`, and at most kTasksMax. The variable must be set.
  EngineFact<int> number(const char* variable, int min);
  // Without a value if the variable is not set.
  EngineFact<int> number_if_set(const char* variable, int min);
  // Requires that `index` is less than `count`.
  void check_index(const EngineFact<int>& index, const EngineFact<int>& count);
  // The same for `task` and `local_task`.
  void check_indices(const EngineFacts& facts);

  // nullopt if it is empty, too.
  std::optional<std::string> text(const char* variable) const;

  const std::optional<Error>& error() const { return error_; }
  // Keeps the error, unless there is one already.
  void fail(const std::string& variable, const Error& error);

 private:
  const Environment& environment_;
  const std::string engine_;
  std::optional<Error> error_;
};

// If all tasks are on one node, fills in the facts of nodes, and the address. For engines that do
// not count nodes.
void conclude_one_node(EngineFacts& facts);

}  // namespace distrun
