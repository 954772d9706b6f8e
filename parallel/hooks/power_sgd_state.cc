#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include "distrun/power_sgd_hook.h"
#include "parallel/hooks/power_sgd_data.h"

namespace distrun {

namespace {

using internal::PowerSGDData;
using internal::TensorOfBucket;

void check_options(const PowerSGDOptions& options) {
  TORCH_CHECK_VALUE(
      options.start_powerSGD_iter > 1 || !(options.use_error_feedback || options.warm_start),
      "PowerSGDState: start_powerSGD_iter is ", options.start_powerSGD_iter,
      "; with use_error_feedback or warm_start, pass at least 2, because DistributedDataParallel "
      "changes its buckets after the first iteration");
  TORCH_CHECK_VALUE(options.matrix_approximation_rank >= 1,
                    "PowerSGDState: matrix_approximation_rank is ",
                    options.matrix_approximation_rank, "; expected at least 1");
  // Not a number is not above 0 either.
  TORCH_CHECK_VALUE(options.min_compression_rate >= 0, "PowerSGDState: min_compression_rate is ",
                    options.min_compression_rate,
                    "; expected 0, which compresses each gradient, or more");
  TORCH_CHECK_VALUE(
      options.orthogonalization_epsilon >= 0 && std::isfinite(options.orthogonalization_epsilon),
      "PowerSGDState: orthogonalization_epsilon is ", options.orthogonalization_epsilon,
      "; expected 0 or a small positive number, such as 1e-8");
}

// Calls visit(name, member) for what is saved as a number.
template <class Data, class Visit>
void visit_numbers(Data& data, const Visit& visit) {
  auto& options = data.options;
  visit("matrix_approximation_rank", options.matrix_approximation_rank);
  visit("start_powerSGD_iter", options.start_powerSGD_iter);
  visit("min_compression_rate", options.min_compression_rate);
  visit("use_error_feedback", options.use_error_feedback);
  visit("warm_start", options.warm_start);
  visit("orthogonalization_epsilon", options.orthogonalization_epsilon);
  visit("compression_stats_logging_frequency", options.compression_stats_logging_frequency);
  visit("batch_tensors_with_same_shape", options.batch_tensors_with_same_shape);
  visit("iter", data.iter);
  visit("total_numel_before_compression", data.stats.numel_before_compression);
  visit("total_numel_after_compression", data.stats.numel_after_compression);
  visit("next_stats_report", data.next_stats_report);
}

template <class Data, class Visit>
void visit_tensors_of_buckets(Data& data, const Visit& visit) {
  visit("error_dict", data.errors);
  visit("p_memory_dict", data.ps);
  visit("q_memory_dict", data.qs);
}

c10::IValue read(torch::serialize::InputArchive& archive, const char* name) {
  c10::IValue value;
  TORCH_CHECK(archive.try_read(name, value), "PowerSGDState: the archive has no '", name,
              "'; pass an archive that a PowerSGDState has saved");
  return value;
}

void check_archive(bool is_right, const char* name) {
  TORCH_CHECK(is_right, "PowerSGDState: the archive is damaged: '", name,
              "' is not what a PowerSGDState saves; load another one");
}

template <class T>
T number_in(torch::serialize::InputArchive& archive, const char* name) {
  const c10::IValue value = read(archive, name);
  if constexpr (std::is_same_v<T, bool>) {
    check_archive(value.isBool(), name);
  } else if constexpr (std::is_floating_point_v<T>) {
    check_archive(value.isDouble(), name);
  } else {
    check_archive(value.isInt(), name);
  }
  return value.to<T>();
}

TensorOfBucket tensors_in(torch::serialize::InputArchive& archive, const char* name) {
  const c10::IValue value = read(archive, name);
  check_archive(value.isGenericDict(), name);
  TensorOfBucket tensors;
  for (const auto& entry : value.toGenericDict()) {
    check_archive(entry.key().isInt() && entry.value().isTensor(), name);
    const at::Tensor tensor = entry.value().toTensor();
    check_archive(tensor.defined() && tensor.dim() == 1, name);
    tensors.emplace(entry.key().toInt(), tensor);
  }
  return tensors;
}

bool have_same_buckets(const TensorOfBucket& a, const TensorOfBucket& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return one.first == other.first; });
}

}  // namespace

PowerSGDState::PowerSGDState(const PowerSGDOptions& options) {
  check_options(options);
  data_ = std::make_shared<PowerSGDData>(options);
}

const PowerSGDOptions& PowerSGDState::options() const { return data_->options; }

std::int64_t PowerSGDState::iter() const { return data_->iter; }

CompressionStats PowerSGDState::compression_stats() const { return data_->compression_stats(); }

void PowerSGDState::save(torch::serialize::OutputArchive& archive) const {
  visit_numbers(*data_, [&](const char* name, auto number) { archive.write(name, number); });
  visit_tensors_of_buckets(*data_, [&](const char* name, const TensorOfBucket& tensors) {
    c10::Dict<std::int64_t, at::Tensor> saved;
    for (const auto& [index, tensor] : tensors) saved.insert(index, tensor);
    archive.write(name, saved);
  });
  archive.write("random_seed", static_cast<std::int64_t>(data_->options.random_seed));
  archive.write("rng", data_->seeds.saved());
}

void PowerSGDState::load(torch::serialize::InputArchive& archive) {
  PowerSGDData loaded(data_->options);
  visit_numbers(
      loaded, [&]<class T>(const char* name, T& number) { number = number_in<T>(archive, name); });
  check_archive(loaded.iter >= 0, "iter");
  check_options(loaded.options);
  visit_tensors_of_buckets(loaded, [&](const char* name, TensorOfBucket& tensors) {
    tensors = tensors_in(archive, name);
  });
  check_archive(have_same_buckets(loaded.ps, loaded.qs), "p_memory_dict");
  loaded.options.random_seed =
      static_cast<std::uint32_t>(number_in<std::int64_t>(archive, "random_seed"));
  const c10::IValue seeds = read(archive, "rng");
  check_archive(seeds.isString(), "rng");
  loaded.seeds.load(seeds.toStringRef());
  if (loaded.iter > 0 && (loaded.options.use_error_feedback || loaded.options.warm_start)) {
    loaded.compresses_again = loaded.iter + 2;
  }
  *data_ = std::move(loaded);
}

torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const PowerSGDState& state) {
  state.save(archive);
  return archive;
}

torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive,
                                           PowerSGDState& state) {
  state.load(archive);
  return archive;
}

}  // namespace distrun
