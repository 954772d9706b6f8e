// The backends that groups can use, by name: "gloo" and "fake", which are built in, and the
// backends that a program registers.
//
//     register_backend("mine", [](const BackendRequest& request) {
//       return c10::make_intrusive<MyBackend>(request.store, request.rank, request.size);
//     }, {c10::DeviceType::CPU});
//     init_process_group("mine");
//
// MyBackend derives from c10d::Backend.  If MyBackend does not override a method, a call of this
// method throws.  Register the backend on every rank before the group is created.
//
// Thread safety: any thread.  A maker runs on the thread that creates the group.
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
  c10::intrusive_ptr<c10d::Store> store;  // Only for this backend, so keys need no prefix.
  int rank = 0;                           // This process's rank in the group.
  int size = 1;                           // The number of ranks in the group.
  // The limit for the creation of the group and for each collective.  The default is PyTorch's.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::vector<int> ranks;  // Element i is the global rank of group rank i.
  std::string group_name;  // The group's name in LibTorch.
  // The user's options; null: the backend's defaults.
  c10::intrusive_ptr<c10d::Backend::Options> options;
};

// Creates a backend.
using BackendMaker = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

// Registers a backend.  `devices` are the kinds of devices whose tensors the backend accepts.  A
// group that is created with only this name uses the backend for all these devices.
//
// Throws: c10::ValueError if the name exists already or is not in lower case, if the maker is
// empty, or if there is no device.
void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices);

// Returns whether a backend of that name is built in or registered.
bool is_backend_available(const std::string& name);

// Calls the maker of that name.  Use it for a backend that wraps another backend.
//
// Throws: c10::ValueError, with a list of known backends, if no backend has that name.
c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request);

}  // namespace distrun
