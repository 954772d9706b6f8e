// die_with_parent: the kernel kills this process when its parent ends, for whatever reason.
//
//     if (!die_with_parent(parent)) ::_exit(125);      // In the child.
//
// "Parent" is the thread that forked: when that thread ends, the child is killed, even if the
// parent process continues. May be called between vfork() and exec().
#pragma once

#include <cerrno>
#include <csignal>

#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace distrun {

// Kills with SIGKILL. Fails, with errno, if `parent` has already ended.
inline bool die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (::getppid() == parent) return true;
  errno = ESRCH;
  return false;
}

}  // namespace distrun
