#include "parallel/join_failure.h"

#include <exception>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/process_group.h"

namespace distrun::internal {

namespace {

constexpr const char* kKey = "distrun/join/failure";
constexpr std::size_t kTextBytesMax = 4096;

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// The first one that any rank of the group has told.
std::string first_failure(const Group& group, const std::string& own) {
  const auto told = group->getStore()->compareSet(kKey, {}, bytes_of(own));
  return {told.begin(), told.end()};
}

}  // namespace

std::optional<std::string> tell_join_failure(const Group& group, const std::string& text) {
  const std::string own =
      c10::str("rank ", get_rank(), " has failed: ", text.substr(0, kTextBytesMax));
  std::string first = own;
  try {
    first = first_failure(group, own);
  } catch (const std::exception&) {
    // Without a store there is nobody to be told; the group's end is seen all the same.
  }
  abort_process_group(group);
  if (first == own || first.empty()) return std::nullopt;
  return first;
}

}  // namespace distrun::internal
