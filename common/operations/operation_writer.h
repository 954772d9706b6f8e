// OperationWriter records the operations of this process where distrun launch reads them.
//
//     auto writer = OperationWriter::open(getenv("DISTRUN_OPERATIONS"));   // null: it is not read
//     const auto texts = operation_texts("all_reduce", "Float", "[1024]", "0");
//     const std::uint64_t number = writer->begin(texts, {.elements = 1024, …});
//     …
//     writer->end(number, {.at = now()});
//
// Only one process of a worker records: the first that opens the page.  After fork(), the child
// records nothing.  Thread safety: one thread at a time; is_own_process(): any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "common/operations/operation.h"
#include "common/operations/operation_page.h"
#include "common/os/unique_fd.h"

namespace distrun {

inline constexpr const char* kOperationsVariable = "DISTRUN_OPERATIONS";

// Cuts long ones.
OperationTexts operation_texts(std::string_view op, std::string_view dtype, std::string_view sizes,
                               std::string_view group);

// The other facts of an Operation at its start.
struct BegunOperation {
  std::uint64_t elements = 0;
  std::uint32_t element_bytes = 0;
  int group_rank = -1;
  int group_size = 0;
  std::uint32_t sequence = 0;
  int peer = -1;
  OperationTime began;
  bool tells_end = true;
  std::optional<std::uint64_t> input_digest;
};

class OperationWriter {
 public:
  // `address`: as OperationPages gives it.  Null if it is malformed, distrun cannot be reached from
  // this process, or another process has opened it: a run does not fail for want of a record.
  static std::unique_ptr<OperationWriter> open(const std::string& address);

  ~OperationWriter();
  OperationWriter(const OperationWriter&) = delete;
  OperationWriter& operator=(const OperationWriter&) = delete;

  // False in a child of fork().
  bool is_own_process() const;

  // Returns the number of the operation.
  std::uint64_t begin(const OperationTexts& texts, const BegunOperation& operation);

  // Does nothing if the ring has been written past the operation.
  void end(std::uint64_t number, OperationTime at,
           const std::optional<BlockDigests>& output_digests = std::nullopt);

  // For an operation that started with `tells_end`.
  void end_is_unknown(std::uint64_t number);

 private:
  // Null if the ring has been written past it.
  OperationSlot* slot_of(std::uint64_t number);
  void fetch_next_slot() const;

  OperationWriter(UniqueFd file, OperationPage* page);

  const UniqueFd file_;  // Its lock says that the page is taken.
  OperationPage* const page_;
  const pid_t process_;
};

}  // namespace distrun
