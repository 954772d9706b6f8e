// Sends the parameters of each rank's share to the other ranks.
//
// Without buckets, large parameters are sent in place, and small ones together, in copies. With
// buckets, the parameters of each rank are views of one tensor for each dtype and device, which is
// sent. All ranks must have the same shares.
//
// Blocks, throws: as collectives. Thread safety: one thread at a time.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"
#include "distrun/work.h"

namespace distrun::internal {

using Shares = std::vector<std::vector<at::Tensor>>;  // By group rank.

class ParameterSync {
 public:
  ParameterSync(Group group, bool as_bucket_view)
      : group_(std::move(group)), as_bucket_view_(as_bucket_view) {}

  // Makes the parameters views of buckets, if they are not and should be.
  void prepare(const Shares& shares);

  // The broadcasts of one step.
  class Sending {
   public:
    // Waits, and copies what was received together into the parameters.
    void finish();

   private:
    friend class ParameterSync;
    struct Part {
      Work work;
      at::Tensor data;
      std::vector<at::Tensor> to;  // Empty if `data` is a parameter or a bucket.
    };
    std::vector<Part> parts_;
  };
  Sending start(const Shares& shares);
  // Sends only these parameters, each in place or in copies, also if they are views of buckets.
  Sending start_in_place(const Shares& some) const;

 private:
  struct Bucket {
    int rank = 0;
    std::vector<at::Tensor> parameters;
    at::Tensor data;
  };

  bool has_buckets_of(const std::vector<Bucket>& buckets) const;
  void send_share(int rank, const std::vector<at::Tensor>& share, Sending& sending) const;
  Work send(const at::Tensor& tensor, int rank) const;

  Group group_;
  bool as_bucket_view_;
  std::vector<Bucket> buckets_;
};

}  // namespace distrun::internal
