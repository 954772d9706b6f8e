// OperationPages is the memory in which the workers of a run record their operations.
//
//     auto pages = OperationPages::make(/*workers=*/4);
//     environment["DISTRUN_OPERATIONS"] = OperationPages::address(pages->file(), 2);
//     …
//     for (const Operation& operation : pages->read(2, last_seen)) …
//
// Nothing remains of it: the file has no name, and workers open it through /proc/PID/fd of this
// process.  So a worker that runs as another user, or in another pid namespace, records nothing.
//
// A worker may write while this reads: an operation that is just being written is left out.
// Trust: a worker can write anything; what is read is bounded.  Thread safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/operations/operation.h"
#include "common/operations/operation_page.h"
#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

class OperationPages {
 public:
  // Memory is taken page by page as workers write: half a MiB of each at most.
  static Result<OperationPages> make(std::size_t workers);
  OperationPages(OperationPages&& other) noexcept;
  OperationPages& operator=(OperationPages&&) = delete;
  ~OperationPages();

  std::string file() const;

  // The value of DISTRUN_OPERATIONS for a worker, from file().
  static std::string address(const std::string& file, std::size_t worker);

  // Forgets everything.  Requires that no worker runs.
  void clear();

  // Whether a process of the worker records now. It may not have started an operation yet.
  bool is_recording(std::size_t worker) const;

  // How many operations the worker has started.
  std::uint64_t begun(std::size_t worker) const;

  // nullopt if it is not kept any more, or is being written.
  std::optional<Operation> read(std::size_t worker, std::uint64_t number) const;

  // The operations after number `after`, oldest first: the last kOperationSlots at most.
  std::vector<Operation> read_after(std::size_t worker, std::uint64_t after) const;

 private:
  OperationPages(UniqueFd file, OperationPage* pages, std::size_t workers);

  UniqueFd file_;
  OperationPage* pages_;
  std::size_t workers_;
};

}  // namespace distrun
