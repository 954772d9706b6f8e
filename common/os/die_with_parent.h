// die_with_parent: a process that the kernel kills when its parent ends, however that ends.
//
//     if (!die_with_parent(parent)) ::_exit(125);      // In the child.
//
// The kernel looks at the thread that has forked: where that ends, the child is killed, though its
// process goes on.  It may be called between vfork() and exec().
#pragma once

#include <cerrno>
#include <csignal>

#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

namespace distrun {

// By SIGKILL.  Fails, with errno, if `parent` has ended already.
inline bool die_with_parent(pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  if (::getppid() == parent) return true;
  errno = ESRCH;
  return false;
}

}  // namespace distrun
