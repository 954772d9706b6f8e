// Leftovers are what a rank still has after its test: threads, descriptors, shared memory and
// files.
//
//     const Leftovers before = leftovers_now();
//     … the test …
//     for (const std::string& leak : new_leftovers(before)) …
//     // "a thread: worker, in train::load", "descriptor 7: socket 127.0.0.1:4711"
//
// Not counted: threads and descriptors that LibTorch, OpenMP and libuv keep until the process ends,
// or as long as a group exists; those of a process that uses a GPU; files in the rank's own folder,
// which distrun removes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace distrun {

struct Leftovers {
  pid_t process = ::getpid();
  std::set<pid_t> threads;
  std::map<int, std::string> descriptors;  // With what they refer to: "socket:[4711]".
  std::set<std::string> shared_memory;     // Of the machine.
  std::set<std::string> named_files;       // Those whose names have the number of the process.
};

Leftovers leftovers_now();

// Empty in a fork of the process of `before`. Cost: under a millisecond if there is nothing.
// Otherwise waits up to a second, because threads and sockets that the test has closed may take a
// moment to end. REQUIRES: a StackReporter exists.
std::vector<std::string> new_leftovers(const Leftovers& before);

// Whether a file name has `pid` as one of its numbers, as names of shared memory do:
// "torch_4711_81_0". Pure.
bool names_process(const std::string& file, pid_t pid);

// Whether a thread of this name belongs to LibTorch or to a group. Pure.
bool is_of_libtorch(const std::string& thread);

}  // namespace distrun
