#include "parallel/trace/test/trace_multirank_fixture.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace distrun {

std::vector<TraceMultirankTest::CollectiveCase> TraceMultirankTest::cases() {
  using Begun = std::pair<Work, Tensors>;
  using Options = CollectiveOptions;
  const auto whole = [](const at::Tensor& x) {
    return at::cat(of_all_ranks([&](int rank) { return x * (rank + 1); }));
  };
  const auto parts = [](const at::Tensor& x) {
    return of_all_ranks([&](int rank) { return x * (rank + 1); });
  };
  return {
      {"c10d.broadcast_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         return {broadcast(y, last(), o), {y}};
       }},
      {"c10d.allreduce_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         return {all_reduce(y, ReduceOp::MAX, o), {y}};
       }},
      {"c10d.allreduce_coalesced_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors y = {x + 1, x + 2};
         return {all_reduce_coalesced(y, ReduceOp::SUM, o), y};
       }},
      {"c10d.reduce_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor y = x.clone();
         Work work = reduce(y, last(), ReduceOp::SUM, o);
         return {work, is_last() ? Tensors{y} : Tensors{}};
       }},
      {"c10d.allgather_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = empties(x);
         return {all_gather(all, x, o), all};
       }},
      {"c10d._allgather_base_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor all = at::empty({2 * size(), 3});
         return {all_gather_into_tensor(all, x, o), {all}};
       }},
      {"c10d.allgather_coalesced_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors one = empties(x), other = empties(x);
         Work work = all_gather_coalesced({one, other}, {x, x + 1}, o);
         return {work, {one.back(), other.front()}};
       }},
      {"c10d.gather_",
       [](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = is_last() ? empties(x) : Tensors{};
         return {gather(x, all, last(), o), all};
       }},
      {"c10d.scatter_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {scatter(own, is_last() ? parts(x) : Tensors{}, last(), o), {own}};
       }},
      {"c10d.reduce_scatter_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {reduce_scatter(own, parts(x), ReduceOp::SUM, o), {own}};
       }},
      {"c10d._reduce_scatter_base_",
       [whole](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor own = at::empty_like(x);
         return {reduce_scatter_tensor(own, whole(x), ReduceOp::SUM, o), {own}};
       }},
      {"c10d.alltoall_",
       [parts](const at::Tensor& x, const Options& o) -> Begun {
         const Tensors all = empties(x);
         return {all_to_all(all, parts(x), o), all};
       }},
      {"c10d.alltoall_base_",
       [whole](const at::Tensor& x, const Options& o) -> Begun {
         const at::Tensor from = whole(x), to = at::empty_like(from);
         return {all_to_all_single(to, from, {}, {}, o), {to}};
       }},
  };
}

}  // namespace distrun
