// The backends that groups can use, by name: "gloo" and "fake", which are built in, and those that
// a program registers.
//
//     register_backend("mine", [](const BackendRequest& request) {
//       return c10::make_intrusive<MyBackend>(request.store, request.rank, request.size);
//     }, {c10::DeviceType::CPU});
//     init_process_group("mine");
//
// MyBackend derives from c10d::Backend.  A call of a method that MyBackend does not override
// throws.  Register the backend on every rank before the group is created.
//
// Thread safety: any thread; a maker runs on the thread that creates the group.
// PyTorch source: torch/distributed/distributed_c10d.py (Backend.register_backend).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/DeviceType.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace distrun {

// The arguments of a maker.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // For this backend alone: keys need no prefix.
  int rank = 0;                           // This process's rank in the group.
  int size = 1;                           // The number of ranks in the group.
  // Limits the creation and each collective.  The default is PyTorch's.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::vector<int> ranks;  // The global ranks, by group rank.
  std::string group_name;  // The group's name in LibTorch.
  // The user's options; null: the backend's defaults.
  c10::intrusive_ptr<c10d::Backend::Options> options;
};

// Creates a backend.
using BackendMaker = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

// Registers a backend.  `devices` are the kinds of devices whose tensors the backend accepts.  A
// group that is created by this name alone uses the backend for all of them.
//
// Throws: c10::ValueError if the name exists or is not lower case, or there is no maker or device.
void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices);

// Returns whether a backend of that name is built in or registered.
bool is_backend_available(const std::string& name);

// Calls the maker of that name, for a backend that wraps another one.
//
// Throws: c10::ValueError, with a list of known backends, if there is none.
c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request);

}  // namespace distrun
