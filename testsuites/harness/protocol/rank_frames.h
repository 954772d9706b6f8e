// The frames in which a rank reports its test through a pipe: four bytes of mark, four of payload
// size, a JSON payload. Other bytes, which a test might write, fail the test.
//
//     ::write(fd, to_frame(AssertionFailed{…}));           // in the rank
//
//     RankFrames frames;                                    // in the runner
//     frames.add(bytes);
//     while (auto frame = frames.next()) …
//     if (frames.is_garbage()) …
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

struct AssertionFailed {
  AssertionFailure failure;
};
struct SkipAsked {
  std::string reason;
};
struct PlaceTold {  // The answer to where_signal().
  std::string text;
  CollectiveRecord collectives;
};
struct CollectiveTold {  // The answer to collective_signal().
  std::string text;
};
struct TestDone {  // The last frame.
  int assertions = 0;
  CollectiveRecord collectives;
};
using RankFrame = std::variant<AssertionFailed, SkipAsked, PlaceTold, CollectiveTold, TestDone>;

// Cuts texts that are too long for a frame.
std::string to_frame(const RankFrame& frame);

class RankFrames {
 public:
  void add(std::string_view bytes);

  std::optional<RankFrame> next();

  // After malformed bytes; later bytes are ignored.
  bool is_garbage() const { return garbage_; }

  // After part of a frame, which is garbage if the pipe has ended.
  bool is_within_frame() const { return !bytes_.empty(); }

 private:
  std::nullopt_t refuse();

  std::string bytes_;
  bool garbage_ = false;
};

}  // namespace distrun
