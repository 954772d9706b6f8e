#include "parallel/checkpoint/tensor_place.h"

#include <cstddef>
#include <map>
#include <utility>
#include <variant>

#include "distrun/fsdp_module.h"
#include "distrun/tensor_parallel.h"
#include "parallel/fsdp/module_tensors.h"

namespace distrun::internal {

namespace {

using Impl = const c10::TensorImpl*;

// Where this rank's part of a tensor parallel parameter lies.
struct PlaceInWhole {
  std::vector<std::int64_t> sizes;  // Of the whole parameter.
  Box box;
};

// How the parameters of a module are divided.
class Divisions {
 public:
  explicit Divisions(torch::nn::Module& module) { visit(module, "", /*is_in_unit=*/false); }

  const FsdpShard* shard_of(const std::string& name) const {
    const auto found = shards_.find(name);
    return found == shards_.end() ? nullptr : &found->second;
  }
  const PlaceInWhole* place_of(const at::Tensor& tensor) const {
    const auto found = places_.find(tensor.unsafeGetTensorImpl());
    return found == places_.end() ? nullptr : &found->second;
  }

 private:
  void visit(torch::nn::Module& module, const std::string& prefix, bool is_in_unit) {
    if (auto* const unit = dynamic_cast<FsdpModule*>(&module)) {
      if (!is_in_unit) {
        for (FsdpShard& shard : unit->shards()) {
          shards_.emplace(prefix + shard.name, std::move(shard));
        }
      }
      for (const auto& child : module.children()) visit(*child, prefix, /*is_in_unit=*/true);
      return;
    }
    if (const auto* const layer = dynamic_cast<const TensorParallelModule*>(&module)) add(*layer);
    for (const auto& child : module.named_children()) {
      visit(*child.value(), prefix + child.key() + ".", is_in_unit);
    }
  }

  void add(const TensorParallelModule& layer) {
    const std::int64_t rank = layer.mesh().get_local_rank();
    for (const ParallelParameter& one : layer.parallel_parameters()) {
      if (!one.local.defined()) continue;
      PlaceInWhole place{one.sizes, whole_box(one.sizes)};
      if (const auto* const shard = std::get_if<tensor::Shard>(&one.placement)) {
        const auto dims = static_cast<std::int64_t>(one.sizes.size());
        const auto dim = static_cast<std::size_t>(shard->dim < 0 ? shard->dim + dims : shard->dim);
        place.box.sizes[dim] = one.sizes[dim] / layer.mesh().size();
        place.box.offsets[dim] = rank * place.box.sizes[dim];
      }
      places_.emplace(one.local.unsafeGetTensorImpl(), std::move(place));
    }
  }

  std::map<std::string, FsdpShard> shards_;
  std::map<Impl, PlaceInWhole> places_;
};

// Moves a box by the offsets of another.
Box moved(Box box, const std::vector<std::int64_t>& offsets) {
  for (std::size_t d = 0; d < box.offsets.size(); ++d) box.offsets[d] += offsets[d];
  return box;
}

}  // namespace

std::vector<TensorPlace> places_in(torch::nn::Module& module) {
  const Divisions divisions(module);
  std::map<Impl, std::size_t> seen;
  std::vector<TensorPlace> places;
  for (const ModuleTensor& one : tensors_of(module)) {
    const auto [first, is_new] = seen.emplace(one.tensor.unsafeGetTensorImpl(), places.size());
    if (!is_new) {  // Divisions have the first name only.
      places.push_back(places[first->second]);
      places.back().name = one.name;
      continue;
    }
    const FsdpShard* const shard = divisions.shard_of(one.name);
    const std::vector<std::int64_t> local = shard ? shard->sizes : one.tensor.sizes().vec();
    const PlaceInWhole* const place = divisions.place_of(one.tensor);
    const PlaceInWhole whole = place ? *place : PlaceInWhole{local, whole_box(local)};
    TensorPlace found{
        .name = one.name, .tensor = one.tensor, .sizes = whole.sizes, .boxes = {whole.box}};
    if (shard != nullptr) {
      found.boxes = boxes_of_range(local, shard->offset, shard->values.numel());
      for (Box& box : found.boxes) box = moved(std::move(box), whole.box.offsets);
      // Without elements, each rank has all of it.
      if (whole.box.numel() == 0) found.boxes = {whole.box};
    }
    places.push_back(std::move(found));
  }
  return places;
}

std::vector<CheckpointPart> parts_of(const TensorPlace& place, const std::string& name,
                                     const at::Tensor& values) {
  std::vector<CheckpointPart> parts;
  if (place.boxes.size() == 1 && values.sizes() == place.boxes.front().sizes) {
    parts.push_back({name, place.sizes, place.boxes.front().offsets, values});
    return parts;
  }
  const at::Tensor flat = values.detach().view({-1});  // It is a shard, which is contiguous.
  std::int64_t begin = 0;
  for (const Box& box : place.boxes) {
    parts.push_back(
        {name, place.sizes, box.offsets, flat.narrow(0, begin, box.numel()).view(box.sizes)});
    begin += box.numel();
  }
  return parts;
}

}  // namespace distrun::internal
