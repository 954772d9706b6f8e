// The backends that groups can be made of, by name: "gloo" and "fake", which are built in, and
// what a program registers.
//
//     register_backend("mine", [](const BackendRequest& request) {
//       return c10::make_intrusive<MyBackend>(request.store, request.rank, request.size);
//     }, {c10::DeviceType::CPU});
//     init_process_group("mine");
//
// MyBackend is derived from c10d::Backend; what it does not override is an error where it is
// called.  Register before the group is made, on every rank.
//
// Threads: any; a maker is called on the thread that makes the group.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <c10/core/DeviceType.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace distrun {

// What a backend is made from.
struct BackendRequest {
  c10::intrusive_ptr<c10d::Store> store;  // Its own part: keys need no prefix.
  int rank = 0;                           // Of this process within the group.
  int size = 1;                           // Ranks in the group.
  // Of the making, and of each collective.  The default is torch's.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::vector<int> ranks;  // Global ones, by group rank.
  std::string group_name;
  // What the user gave; none: the backend's defaults.
  c10::intrusive_ptr<c10d::Backend::Options> options;
};

using BackendMaker = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

// Names are lower case.  `devices`: those whose tensors the backend takes, and for which it is
// meant where a group's backend is given by that name alone.
// Throws where the name is taken or not lower case, or there is no device.
void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices);

// Whether a backend of that name can be used: it is built in or registered.  As in
// torch.distributed.
bool is_backend_available(const std::string& name);

// Calls the maker of that name: for a backend that wraps another one.  Throws c10::ValueError if
// there is none; the text lists those that exist.
c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request);

}  // namespace distrun
