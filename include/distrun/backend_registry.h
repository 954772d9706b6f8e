// The backends that groups can use.  "gloo", "shm", "auto" and "fake" are built in.  A program can
// register other backends.
//
//     register_backend("mine", [](const BackendRequest& request) {
//       return c10::make_intrusive<MyBackend>(request.store, request.rank, request.size);
//     }, {c10::DeviceType::CPU});
//     init_process_group("mine");
//
// MyBackend derives from c10d::Backend.  If MyBackend does not override a collective, this
// collective throws.  Register the backend on every rank before you create a group that uses it.
//
// The maker is the function that you pass to register_backend().  For each group that uses the
// backend, the maker runs once, on the thread that creates the group.  A group can use at most one
// backend that the program has registered.
//
// Thread safety: any thread.
// PyTorch source: torch/distributed/distributed_c10d.py (Backend.register_backend).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace distrun {

// The argument of a maker.
struct BackendRequest {
  // A store for this backend of this group.  No other code uses its keys, so the keys need no
  // prefix.
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;  // The rank of this process in the group.
  int size = 1;  // The number of ranks in the group.
  // The time limit for the creation of the group and for each collective.  The default is
  // PyTorch's default.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::vector<int> ranks;  // Element i is the global rank of group rank i.
  std::string group_name;  // The group's name in LibTorch.
  // The user's options.  If they are null, the backend uses its defaults.
  c10::intrusive_ptr<c10d::Backend::Options> options;
  // InitOptions::device_id, also for new_group().  If it is set and the backend supports splitting,
  // the group calls eagerConnectSingleDevice() of the new backend.
  std::optional<c10::Device> device = std::nullopt;
  // A backend that the new one can be split from, instead of connecting anew: the default group's
  // backend with the same name, if `device` is set and it supports splitting.  Null for the default
  // group, and for groups with GroupOptions::use_local_synchronization.
  c10::intrusive_ptr<c10d::Backend> split_from = {};
};

// Creates a backend for a group.
using BackendMaker = std::function<c10::intrusive_ptr<c10d::Backend>(const BackendRequest&)>;

// Registers a backend.  The backend accepts tensors on the kinds of devices in `devices`.  A group
// that is created with this name alone uses the backend for all these devices.
//
// Throws: c10::ValueError if the name exists already, is not in lower case, or contains ':' or ','.
// Also throws c10::ValueError if the maker is empty, or if `devices` is empty.
void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices);

// Returns whether a backend with this name is built in or registered.  For a list such as
// "cpu:gloo,cuda:nccl", returns whether all its backends are.
//
// Throws: c10::ValueError if a list is malformed.
bool is_backend_available(const std::string& name);
// Returns whether the backend "gloo" is built in, which it always is.
bool is_gloo_available();
// Returns whether the backend "nccl" is built in: whether distrun was built with a CUDA build of
// LibTorch.
bool is_nccl_available();
// Returns whether a program has registered a backend "mpi".  distrun has none.
bool is_mpi_available();
// Returns whether a program has registered a backend "ucc".  distrun has none.
bool is_ucc_available();
// Returns whether a program has registered a backend "xccl".  distrun has none.
bool is_xccl_available();

// Returns the name of the backend for tensors on this kind of device: "gloo" for the CPU, "nccl"
// for CUDA, and otherwise the first backend that was registered for the device.  The backend need
// not be available.
//
// Throws: c10::ValueError if no backend is known for the device.
std::string get_default_backend_for_device(c10::DeviceType device);

// Calls the maker of the backend with this name.  Use make_backend() to create a backend that wraps
// another backend.
//
// Blocks: as the maker does.  With "gloo", make_backend() blocks until this rank has connected to
// all other ranks.  With "shm", it blocks until the ranks of each host have exchanged their memory,
// and the hosts have connected.
// Throws: c10::ValueError if no backend has this name.  The text lists the known backends.
// Also throws the exceptions of the maker.
// Cost: for "gloo" with default options, three threads and a connection to every other rank.
c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request);

}  // namespace distrun
