// BackendTraits says what the code that serves every backend (backends/group/) needs to know about
// one of them, beyond what c10d::Backend can do.  That code asks the traits.  It compares no
// names but c10d's own "nccl", where c10d's group, or Python, decides by it.
//
//     class GlooTraits : public BackendTraits { … };          // backends/gloo/
//     find_backend("gloo").traits->check_options(options);    // registered_backends.h
//
// Each default is right for a backend of which nothing is known.  Threads: any.
#pragma once

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

  // Making a group.

  // Throws c10::TypeError if the options are those of another backend.
  virtual void check_options(const BackendOptions& /*options*/) const {}

  // False: a rank of its groups is alone.  A world of such backends needs no store with other
  // ranks, and no collective is compared with another rank's.
  virtual bool needs_rendezvous() const { return true; }
  // The store of a world that needs no rendezvous.
  virtual c10::intrusive_ptr<c10d::Store> store_without_rendezvous() const;

  // The arguments of a collective.  Each throws c10::ValueError, by site.check().

  // The dtype of a tensor that is reduced.  What only moves tensors takes every dtype.
  virtual void check_dtype(const CallSite& /*site*/, const Name& /*name*/,
                           const at::Tensor& /*tensor*/) const {}
  // The reduction of such a tensor.
  virtual void check_operation(const CallSite& /*site*/, const at::Tensor& /*tensor*/,
                               const c10d::ReduceOp& /*op*/) const {}
  // The tensor's device, for point to point and coalesced operations.
  virtual void check_device(const CallSite& /*site*/, const Name& /*name*/,
                            const at::Tensor& /*tensor*/) const {}
  // False: alltoall() needs tensors of one size.
  virtual bool has_uneven_all_to_all() const { return true; }

  // Errors.

  // The text of an exception that has no type of its own says that this backend threw it.
  virtual bool is_error(std::string_view /*text*/) const { return false; }
  // That text says that a peer did not come in time.
  virtual bool is_timeout(std::string_view /*text*/) const { return false; }
  // The rank, within the group, of the peer whose lost connection `error` reports; nothing if it
  // reports something else, or `backend` is another one.  `backend` has just thrown it.
  virtual std::optional<int> lost_peer(c10d::Backend& /*backend*/,
                                       const std::string& /*error*/) const {
    return std::nullopt;
  }
};

}  // namespace distrun::internal
