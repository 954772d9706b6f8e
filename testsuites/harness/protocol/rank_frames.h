// What a rank tells of its test, through a pipe: frames, each of eight bytes (a mark, then the
// payload's size) and a payload of JSON.  The pipe is the test's too, as is everything in its
// process: what is no frame is garbage, and fails it.
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
struct PlaceTold {  // Where it stands, as it was asked to say.
  std::string text;
};
struct TestDone {  // The last one.
  int assertions = 0;
  std::vector<Collective> collectives;
};
using RankFrame = std::variant<AssertionFailed, SkipAsked, PlaceTold, TestDone>;

// A text that is too long for a frame is cut.
std::string to_frame(const RankFrame& frame);

class RankFrames {
 public:
  void add(std::string_view bytes);

  std::optional<RankFrame> next();

  // Something else has come.  Nothing that follows is looked at.
  bool is_garbage() const { return garbage_; }

  // A part of a frame is there, and the rest is not: garbage if the pipe has ended.
  bool is_within_frame() const { return !bytes_.empty(); }

 private:
  std::nullopt_t refuse();

  std::string bytes_;
  bool garbage_ = false;
};

}  // namespace distrun
