// Collects the warnings of LibTorch and libdistrun, in order, instead of printing them.
//
//     const Warnings warnings;
//     all_reduce(tensor, ReduceOp::SUM, {.group = not_ours});
//     EXPECT_EQ(warnings.texts().size(), 1);
//
// Only those of the thread that constructed it.
#pragma once

#include <string>
#include <vector>

#include <c10/util/Exception.h>

namespace distrun {

class Warnings : private c10::WarningHandler {
 public:
  Warnings() : guard_(this) {}

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void process(const c10::Warning& warning) override { texts_.push_back(warning.msg()); }

  std::vector<std::string> texts_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

}  // namespace distrun
