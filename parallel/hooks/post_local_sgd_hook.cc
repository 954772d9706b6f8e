#include "distrun/post_local_sgd_hook.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include "distrun/process_group.h"
#include "parallel/hooks/mean_future.h"

namespace distrun {

struct PostLocalSGDState::Data {
  PostLocalSGDOptions options;
  std::int64_t iter = 0;
};

namespace {

int ranks_of_this_node() {
  const char* variable = std::getenv("LOCAL_WORLD_SIZE");
  const std::string text = variable == nullptr ? "" : variable;
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  TORCH_CHECK_VALUE(error == std::errc() && end == text.data() + text.size() && ranks > 0,
                    "PostLocalSGDState on rank ", get_rank(), ": LOCAL_WORLD_SIZE is '", text,
                    "'; set it to the number of ranks on each node, or pass a subgroup");
  return ranks;
}

}  // namespace

PostLocalSGDState::PostLocalSGDState(PostLocalSGDOptions options)
    : data_(std::make_shared<Data>(Data{.options = std::move(options)})) {
  PostLocalSGDOptions& mine = data_->options;
  TORCH_CHECK_VALUE(!mine.subgroup || mine.subgroup->is_member(), "PostLocalSGDState on rank ",
                    get_rank(), ": this rank is not in the subgroup; pass each rank its own");
  if (mine.subgroup || !mine.post_local_gradient_allreduce) return;
  mine.subgroup = new_subgroups(ranks_of_this_node()).own;
}

const PostLocalSGDOptions& PostLocalSGDState::options() const { return data_->options; }

std::int64_t PostLocalSGDState::iter() const { return data_->iter; }

void PostLocalSGDState::save(torch::serialize::OutputArchive& archive) const {
  archive.write("post_localSGD_iter", c10::IValue(data_->iter));
}

void PostLocalSGDState::load(torch::serialize::InputArchive& archive) {
  c10::IValue iter;
  TORCH_CHECK(archive.try_read("post_localSGD_iter", iter),
              "PostLocalSGDState: the archive has no 'post_localSGD_iter'; pass an archive that a "
              "PostLocalSGDState has saved");
  TORCH_CHECK(iter.isInt() && iter.toInt() >= 0,
              "PostLocalSGDState: the archive is damaged: 'post_localSGD_iter' is not what a "
              "PostLocalSGDState saves; load another one");
  data_->iter = iter.toInt();
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PostLocalSGDState& state) {
  state.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PostLocalSGDState& state) {
  state.load(archive);
  return archive;
}

Future post_localSGD_hook(const PostLocalSGDState& state, c10d::GradBucket& bucket) {
  PostLocalSGDState::Data& data = state.data();
  const PostLocalSGDOptions& options = data.options;
  const auto mean_in = [&](const Group& group) {
    return internal::mean_future(group, "post_localSGD_hook", bucket, bucket.getBuffer());
  };
  if (data.iter < options.start_localSGD_iter) {
    if (bucket.isLast() && ++data.iter == options.start_localSGD_iter) {
      LOG(INFO) << "post_localSGD_hook: reduces in the subgroup after " << data.iter
                << " iterations";
    }
    return mean_in(options.process_group);
  }
  if (!options.post_local_gradient_allreduce) return completed_future(bucket.getBuffer());
  return mean_in(*options.subgroup);
}

}  // namespace distrun
