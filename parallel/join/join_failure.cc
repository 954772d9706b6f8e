#include "parallel/join/join_failure.h"

#include <exception>
#include <iterator>
#include <sstream>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/text/text_cut.h"
#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kFailureKey = "distrun/join/failure";
constexpr std::size_t kTextBytesMax = 4096;

// Format: "p 3 connection refused", or "f …" if rank 3 itself failed.
std::vector<std::uint8_t> pack(const JoinFailure& failure) {
  const std::string text = c10::str(failure.is_of_a_peer ? "p " : "f ", failure.rank, " ",
                                    cut_to_bytes(failure.text, kTextBytesMax));
  return {text.begin(), text.end()};
}

JoinFailure unpack(const std::vector<std::uint8_t>& bytes) {
  std::istringstream stream(std::string(bytes.begin(), bytes.end()));
  char kind = 0;
  JoinFailure failure{};
  stream >> kind >> failure.rank;
  stream.get();
  failure.is_of_a_peer = kind == 'p';
  failure.text.assign(std::istreambuf_iterator<char>(stream), {});
  return failure;
}

// Publishes `own` unless another rank's failure is published. Returns the published one.
JoinFailure first_failure(const Group& group, const JoinFailure& own) {
  return unpack(group->getStore()->compareSet(kFailureKey, {}, pack(own)));
}

}  // namespace

std::optional<JoinFailure> tell_join_failure(const Group& group, const JoinFailure& own) {
  std::optional<JoinFailure> first;
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

}  // namespace distrun::internal
