// HolderPresence is one holder's entry in a file that all holders of a queue, or of GPU memory,
// share.  The file shows the holders and their abilities. The kernel removes a holder whose process
// ends.
//
//     HolderPresence mine = HolderPresence::make({.can_put = true, .can_get = true});
//     HolderPresence theirs = mine.another({.can_get = true});      // Send theirs.descriptor().
//     if (auto pid = mine.other(Ability::kGet)) …                   // Another holder can get.
//
// The file is a memfd.  Through its own file description, each holder locks (F_OFD_SETLK) a place
// for each of its abilities:
//
// | put lock | places of holders that can put: pid, … | places of those that can get: pid, … |
//
// A lock lives as long as its description, even in flight in a socket. A description does not see
// its own locks, so any lock that a holder finds is another's.  A place contains its process's pid,
// which may be outdated, or 0 in flight; it only helps to wait.
//
// fork() copies the descriptor, not the description: a child must use one made by another().  A
// child with a copy of a descriptor in flight keeps that holder present until it exits or calls
// exec().
//
// Errors: c10::Error if the kernel runs out of room.  Threads: any for const functions.
#pragma once

#include <optional>
#include <utility>

#include <sys/types.h>

#include "common/os/unique_fd.h"

namespace distrun::internal {

enum class Ability { kPut, kGet };

struct Abilities {
  bool can_put = false;
  bool can_get = false;
};

class HolderPresence {
 public:
  // Indices of places; -1: none.
  struct Places {
    int put = -1;
    int get = -1;
  };

  // Creates the file, with this process as its first holder.
  static HolderPresence make(Abilities abilities);

  // From descriptors that another process sent.
  static HolderPresence taken_over(UniqueFd file, Places places);

  // A new holder, which belongs to no process until announce().
  HolderPresence another(Abilities abilities) const;

  // Writes this process's pid into its places, if possible.
  void announce() const noexcept;

  // The pid of another holder that has `ability`, 0 if unknown; empty if there is none.
  std::optional<pid_t> other(Ability ability) const;

  Abilities abilities() const { return {places_.put >= 0, places_.get >= 0}; }
  const Places& places() const { return places_; }
  int descriptor() const { return file_.get(); }
  // The places live as long as the descriptor.
  UniqueFd release() { return std::move(file_); }

  // Only one holder can have this lock; false if another has it. Threads of a holder must exclude
  // each other.
  bool try_lock_put() const;
  void unlock_put() const noexcept;

 private:
  HolderPresence(UniqueFd file, Places places) : file_(std::move(file)), places_(places) {}
  static HolderPresence join(UniqueFd file, Abilities abilities);

  UniqueFd file_;
  Places places_;
};

}  // namespace distrun::internal
