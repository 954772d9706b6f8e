// BackendTraits is what backends/group/ knows about a backend beyond c10d::Backend. Code there does
// not compare names, except "nccl" if c10d's group or Python does.
//
//     class GlooTraits : public BackendTraits { … };          // backends/gloo/
//     find_backend("gloo").traits->check_options(options);    // registered_backends.h
//
// The defaults fit any unknown backend. Thread safety: any thread may call it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "distrun/group.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace distrun::internal {

struct CallSite;
class Name;

class BackendTraits {
 public:
  virtual ~BackendTraits() = default;

  // Creating a group.

  // Throws c10::TypeError for options of another backend.
  virtual void check_options(const BackendOptions& /*options*/) const {}

  // Of groups that have only this backend, if the user gives none.
  virtual std::chrono::milliseconds default_timeout() const { return std::chrono::minutes(30); }

  // False: each rank is alone, needs no shared store, and compares no calls.
  virtual bool needs_rendezvous() const { return true; }
  // The store of a world that needs no rendezvous.
  virtual c10::intrusive_ptr<c10d::Store> store_without_rendezvous() const;

  // Called on ranks outside a new group whose members split `parent`, the default group's backend.
  virtual void stay_out_of_split(c10d::Backend& /*parent*/, c10::Device /*device*/) const {}

  // Checks of arguments; they throw c10::ValueError through site.check().

  // The dtype of a tensor to reduce. Other collectives accept every dtype.
  virtual void check_dtype(const CallSite& /*site*/, const Name& /*name*/,
                           const at::Tensor& /*tensor*/) const {}
  // The reduce operation for the tensor.
  virtual void check_operation(const CallSite& /*site*/, const at::Tensor& /*tensor*/,
                               const c10d::ReduceOp& /*op*/) const {}
  // The tensor's device, for point to point and coalesced operations.
  virtual void check_device(const CallSite& /*site*/, const Name& /*name*/,
                            const at::Tensor& /*tensor*/) const {}
  // False: alltoall() needs tensors of one size.
  virtual bool has_uneven_all_to_all() const { return true; }

  // Errors.

  // Whether the text is from an untyped exception of this backend.
  virtual bool is_error(std::string_view /*text*/) const { return false; }
  // Whether that text reports a timeout.
  virtual bool is_timeout(std::string_view /*text*/) const { return false; }
  // The group rank of the peer whose lost connection `error` reports; empty for other errors and
  // backends. `backend` has just thrown `error`.
  virtual std::optional<int> lost_peer(c10d::Backend& /*backend*/,
                                       const std::string& /*error*/) const {
    return std::nullopt;
  }
};

}  // namespace distrun::internal
