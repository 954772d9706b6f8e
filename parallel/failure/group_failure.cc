#include "parallel/failure/group_failure.h"

#include <exception>
#include <iterator>
#include <sstream>
#include <vector>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/group/run_collective.h"
#include "common/text/text_cut.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kFailureKey = "distrun/join/failure";
constexpr std::size_t kTextBytesMax = 4096;

// Format: "p 3 connection refused", or "f …" if rank 3 itself failed.
std::vector<std::uint8_t> pack(const GroupFailure& failure) {
  const std::string text = c10::str(failure.is_of_a_peer ? "p " : "f ", failure.rank, " ",
                                    cut_to_bytes(failure.text, kTextBytesMax));
  return {text.begin(), text.end()};
}

GroupFailure unpack(const std::vector<std::uint8_t>& bytes) {
  std::istringstream stream(std::string(bytes.begin(), bytes.end()));
  char kind = 0;
  GroupFailure failure{};
  stream >> kind >> failure.rank;
  stream.get();
  failure.is_of_a_peer = kind == 'p';
  failure.text.assign(std::istreambuf_iterator<char>(stream), {});
  return failure;
}

// Publishes `own` unless another rank's failure is published. Returns the published one.
GroupFailure first_failure(const Group& group, const GroupFailure& own) {
  return unpack(group->getStore()->compareSet(kFailureKey, {}, pack(own)));
}

std::string text_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

std::optional<GroupFailure> report_group_failure(const Group& group, const GroupFailure& own) {
  std::optional<GroupFailure> first;
  try {
    first = first_failure(group, own);
  } catch (const std::exception&) {
    // Without the store, other ranks only see that the group ends.
  }
  try {
    abort_process_group(group);
  } catch (const std::exception&) {
    // The group is gone, which the other ranks have seen.
  }
  if (!first || first->rank == own.rank) return std::nullopt;
  return first;
}

void rethrow_as_reported(const char* function, const Group& group, int rank) {
  const std::exception_ptr exception = std::current_exception();
  const std::string own = text_of(exception);
  const bool is_of_a_peer = is_of_a_backend(exception);
  const auto other = report_group_failure(group, {is_of_a_peer, rank, own});
  if (!other || !is_of_a_peer) std::rethrow_exception(exception);
  const std::string all = c10::str(
      function, " on rank ", rank, ": rank ", other->rank,
      other->is_of_a_peer ? " reported: " : " has failed: ", other->text, "; this rank saw: ", own);
  TORCH_CHECK_WITH(DistBackendError, !other->is_of_a_peer, all);
  TORCH_CHECK_WITH(DistError, false, all);
}

}  // namespace distrun::internal
