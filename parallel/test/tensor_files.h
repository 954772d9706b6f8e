// Files of named tensors in the format of torch.save(), for tests that compare C++ with Python.
#pragma once

#include <filesystem>
#include <string>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

namespace distrun::testing {

using TensorDict = c10::Dict<std::string, at::Tensor>;

// Both throw c10::Error if they fail.
TensorDict load(const std::filesystem::path& path);
void save(const std::filesystem::path& path, const TensorDict& tensors);

}  // namespace distrun::testing
