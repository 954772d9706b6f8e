#include "evidence/report/stack_tree.h"

#include <algorithm>

#include "common/text/rank_list.h"
#include "evidence/report/readable_stack.h"

namespace distrun {

StackTree::Group StackTree::all() const {
  Group stacks;
  for (const Stack& stack : stacks_) stacks.push_back(&stack);
  return stacks;
}

std::vector<int> StackTree::ranks_of(const Group& stacks) {
  std::vector<int> ranks;
  for (const Stack* stack : stacks) ranks.push_back(stack->rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// Groups stacks by their frame at `depth`; those that end before it form one group.
std::vector<StackTree::Group> StackTree::groups_at(const Group& stacks, std::size_t depth) {
  const auto frame_of = [depth](const Stack* stack) {
    return depth < stack->frames.size() ? &stack->frames[depth] : nullptr;
  };
  const auto same_frame = [](const Frame* one, const Frame* other) {
    return one == other || (one != nullptr && other != nullptr && *one == *other);
  };
  std::vector<Group> groups;
  for (const Stack* stack : stacks) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) {
      return same_frame(frame_of(known.front()), frame_of(stack));
    });
    if (group == groups.end()) {
      groups.push_back({stack});
    } else {
      group->push_back(stack);
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& one, const Group& other) {
    return ranks_of(one).size() < ranks_of(other).size();
  });
  return groups;
}

void StackTree::print(const Group& stacks, std::size_t depth, const std::string& indent,
                      std::string& text) {
  auto groups = groups_at(stacks, depth);
  for (; groups.size() == 1; groups = groups_at(stacks, ++depth)) {
    if (depth >= stacks.front()->frames.size()) return;
    text += indent + described(stacks.front()->frames[depth]) + '\n';
  }
  for (const Group& group : groups) {
    text += indent + list_of_ranks(ranks_of(group));
    // These ranks' calls end here.
    const bool ends = depth >= group.front()->frames.size();
    text += ends ? " goes no further\n" : "\n";
    print(group, depth, indent + "  ", text);
  }
}

std::string StackTree::text(const std::string& indent) const {
  std::string text;
  if (!stacks_.empty()) print(all(), 0, indent, text);
  return text;
}

}  // namespace distrun
