// HolderPresence is a holder's part in a file that all holders of a queue, or of a GPU's memory,
// share: who is there, and what can they do.  The kernel takes a holder out when it is gone,
// however it ends.
//
//     HolderPresence mine = HolderPresence::make({.can_put = true, .can_get = true});
//     HolderPresence theirs = mine.another({.can_get = true});      // To be sent:
//     theirs.descriptor(), … if (auto who = mine.other(Ability::kGet)) …             // Somebody
//     else who can get.
//
// The file is a memfd.  Each holder has it open by a description of its own, and through that keeps
// locks (F_OFD_SETLK) on a place for each thing that it can do:
//
//     | put lock | places of who can put: pid, pid, … | places of who can get: pid, pid, … |
//
// Such a lock lives as long as its description: also while it is on its way in a socket.  A
// description does not see its own locks, so what a holder finds is somebody else's.  The pid in a
// place is that of the process that has it, 0 on the way, or an older one's; it only helps to wait.
//
// fork() copies the descriptor, not the description: the child is to take one made by another().  A
// child that has a copy of one which was to be sent keeps that holder there until it ends or
// executes a program.
//
// Errors: c10::Error where the kernel has no room.  Threads: any for const functions.
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
  // Numbers of places; -1: none.
  struct Places {
    int put = -1;
    int get = -1;
  };

  // The first in a new file, of this process.
  static HolderPresence make(Abilities abilities);

  // What another process has sent.
  static HolderPresence taken_over(UniqueFd file, Places places);

  // Of nobody yet, as long as nobody calls announce().
  HolderPresence another(Abilities abilities) const;

  // Tells the others which process this is, where that can be written.
  void announce() const noexcept;

  // The process of another holder that can do this, 0 where it is not known; nothing: there is
  // none.
  std::optional<pid_t> other(Ability ability) const;

  Abilities abilities() const { return {places_.put >= 0, places_.get >= 0}; }
  const Places& places() const { return places_; }
  int descriptor() const { return file_.get(); }
  // The place lives on with the descriptor.
  UniqueFd release() { return std::move(file_); }

  // One holder at a time; false where another has it.  Threads of one holder exclude each other by
  // themselves.
  bool try_lock_put() const;
  void unlock_put() const noexcept;

 private:
  HolderPresence(UniqueFd file, Places places) : file_(std::move(file)), places_(places) {}
  static HolderPresence join(UniqueFd file, Abilities abilities);

  UniqueFd file_;
  Places places_;
};

}  // namespace distrun::internal
