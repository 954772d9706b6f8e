#include "parallel/join/join_failure.h"

#include <exception>
#include <iterator>
#include <sstream>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distrun/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kFailureKey = "distrun/join/failure";
constexpr std::size_t kTextBytesMax = 4096;

// "p 3 connection refused"
std::vector<std::uint8_t> pack(const JoinFailure& failure) {
  const std::string text = c10::str(failure.is_of_a_peer ? "p " : "f ", failure.rank, " ",
                                    failure.text.substr(0, kTextBytesMax));
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

// The first one that any rank of the group has told.
JoinFailure first_failure(const Group& group, const JoinFailure& own) {
  return unpack(group->getStore()->compareSet(kFailureKey, {}, pack(own)));
}

}  // namespace

std::optional<JoinFailure> tell_join_failure(const Group& group, const JoinFailure& own) {
  std::optional<JoinFailure> first;
  try {
    first = first_failure(group, own);
  } catch (const std::exception&) {
    // Without a store there is nobody to be told; the group's end is seen all the same.
  }
  try {
    abort_process_group(group);
  } catch (const std::exception&) {
    // Of a group that is gone the others have seen the end.
  }
  if (!first || first->rank == own.rank) return std::nullopt;
  return first;
}

}  // namespace distrun::internal
