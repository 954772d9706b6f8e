#include "parallel/checkpoint/load_sources.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "parallel/checkpoint/box.h"
#include "parallel/checkpoint/safetensors.h"

namespace distrun::internal {

namespace {

std::vector<std::int64_t> sizes_of(const std::vector<Source>& parts) {
  std::vector<std::int64_t> sizes(parts.front().entry->box.sizes.size());
  for (const Source& part : parts) {
    const Box& box = part.entry->box;
    if (box.sizes.size() != sizes.size()) return {-1};
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      sizes[d] = std::max(sizes[d], box.offsets[d] + box.sizes[d]);
    }
  }
  return sizes;
}

bool is_same_part(const CheckpointPart& a, const CheckpointPart& b) {
  return a.sizes == b.sizes && a.offsets == b.offsets && a.values.is_alias_of(b.values) &&
         a.values.storage_offset() == b.values.storage_offset() &&
         a.values.sizes() == b.values.sizes() && a.values.strides() == b.values.strides();
}

}  // namespace

Sources sources_in(const std::vector<std::unique_ptr<CheckpointFile>>& files) {
  Sources sources;
  for (const auto& file : files) {
    for (const SafetensorsEntry& entry : file->entries()) {
      sources[entry.name].push_back({file.get(), &entry});
    }
  }
  return sources;
}

std::vector<CheckpointPart> parts_to_load(const CheckpointState& state, const Sources& sources) {
  const auto& all = state.parts();
  std::vector<CheckpointPart> parts;
  std::copy_if(all.begin(), all.end(), std::back_inserter(parts), [&](const CheckpointPart& part) {
    return sources.contains(part.name) ||
           std::none_of(all.begin(), all.end(), [&](const CheckpointPart& other) {
             return sources.contains(other.name) && is_same_part(part, other);
           });
  });
  return parts;
}

void check_sources(const std::string& path, const std::vector<CheckpointPart>& parts,
                   const Sources& sources) {
  for (const CheckpointPart& part : parts) {
    const auto found = sources.find(part.name);
    TORCH_CHECK_VALUE(found != sources.end(), path, " has no '", part.name, "'");
    const auto sizes = sizes_of(found->second);
    TORCH_CHECK_VALUE(sizes == part.sizes, "'", part.name, "' has sizes ", c10::IntArrayRef(sizes),
                      " in ", path, "; expected ", c10::IntArrayRef(part.sizes));
    const Box box{part.offsets, part.values.sizes().vec()};
    std::int64_t elements = 0;
    for (const Source& one : found->second) {
      const auto common = intersection(one.entry->box, box);
      if (!common) continue;
      elements += common->numel();
      TORCH_CHECK_VALUE(one.entry->dtype != at::ScalarType::Undefined, "'", part.name, "' has in ",
                        path, " a dtype that is not supported");
    }
    TORCH_CHECK_VALUE(elements >= box.numel(), path, " has ", elements, " of the ", box.numel(),
                      " elements of '", part.name, "' on this rank");
    TORCH_CHECK_VALUE(elements <= box.numel(), path, " has elements of '", part.name, "' twice");
    TORCH_CHECK_VALUE(at::has_internal_overlap(part.values) != at::MemOverlap::Yes, "'", part.name,
                      "' is an expanded tensor, which cannot be loaded; use contiguous()");
  }
}

void read_parts(const std::vector<CheckpointPart>& parts, const Sources& sources) {
  const at::NoGradGuard no_grad;
  for (const CheckpointPart& part : parts) {
    const Box box{part.offsets, part.values.sizes().vec()};
    for (const Source& one : sources.at(part.name)) {
      const auto common = intersection(one.entry->box, box);
      if (!common) continue;
      at::Tensor target = part.values;
      for (std::size_t d = 0; d < common->sizes.size(); ++d) {
        target = target.narrow(static_cast<std::int64_t>(d), common->offsets[d] - box.offsets[d],
                               common->sizes[d]);
      }
      one.file->read(*one.entry, *common, target);
    }
  }
}

}  // namespace distrun::internal
