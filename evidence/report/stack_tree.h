// StackTree merges the stacks of many ranks, and shows common calls once.
//
//     StackTree tree;
//     tree.add(0, readable(frames)); …
//     text += tree.text("  ");
//     //   main (train.py:40)
//     //     rank 3
//     //       load_batch (train.py:12)
//     //     ranks 0-2
//     //       all_reduce (torch/distributed/distributed_c10d.py:2810)
//
// Where ranks differ, the smallest groups come first. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "evidence/stack.h"

namespace distrun {

class StackTree {
 public:
  // A rank may be added several times, once per thread.
  void add(int rank, std::vector<Frame> frames) { stacks_.push_back({rank, std::move(frames)}); }

  bool empty() const { return stacks_.empty(); }
  std::vector<int> ranks() const { return ranks_of(all()); }

  std::string text(const std::string& indent) const;

 private:
  struct Stack {
    int rank;
    std::vector<Frame> frames;
  };
  using Group = std::vector<const Stack*>;

  Group all() const;
  static std::vector<Group> groups_at(const Group& stacks, std::size_t depth);
  static std::vector<int> ranks_of(const Group& stacks);
  static void print(const Group& stacks, std::size_t depth, const std::string& indent,
                    std::string& text);

  std::vector<Stack> stacks_;
};

}  // namespace distrun
