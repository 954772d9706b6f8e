// The places in the code where threads of a program use atomics, and their names.
//
//     Callers callers;                       // Of a thread: the hooks call enter() and leave().
//     const int number = sites.number_of(operation, callers, location);
//     sites.all()[number].text;              // "Phases::publish word.exchange"
//
// A place within a function of std::atomic counts as that of the function's caller.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "backends/shm/host/test/model/explorer.h"
#include "backends/shm/host/test/model/memory.h"
#include "backends/shm/host/test/model/operation.h"

namespace distrun::shm::model {

// Where the functions that a thread is in return to.
class Callers {
 public:
  void enter(const void* caller) { all_[depth_++ % all_.size()] = caller; }
  void leave() { --depth_; }
  std::size_t depth() const { return depth_; }
  // 1 is the last.
  const void* back(std::size_t number) const { return all_[(depth_ - number) % all_.size()]; }

 private:
  std::array<const void*, 64> all_{};  // The last ones.
  std::size_t depth_ = 0;
};

class Sites {
 public:
  // The place of an operation on an atomic.
  int number_of(const Operation& operation, const Callers& callers, const Location& location);
  // In the order of their first use.
  const std::vector<Site>& all() const { return all_; }
  const Site& operator[](int number) const { return all_[static_cast<std::size_t>(number)]; }

 private:
  bool is_in_library(const void* caller);

  std::vector<Site> all_;
  std::map<std::pair<const void*, std::size_t>, int> numbers_;  // By caller and name.
  std::map<const void*, bool> are_in_library_;
};

}  // namespace distrun::shm::model
