// A folder for checkpoints of one process, and its files.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "distrun/checkpoint.h"

namespace distrun {

class CheckpointFixture : public ::testing::Test {
 protected:
  static CheckpointState state_of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
    CheckpointState state;
    for (const auto& [name, tensor] : tensors) state.add(name, tensor);
    return state;
  }
  void save(const at::Tensor& tensor) { save_checkpoint(path_, state_of({{"x", tensor}})); }
  at::Tensor load(const at::Tensor& like) {
    const at::Tensor target = at::zeros_like(like);
    CheckpointState state = state_of({{"x", target}});
    load_checkpoint(path_, state);
    return target;
  }
  template <class Error = c10::Error, class Act>
  static std::string error_of(const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }
  std::string error_of_load() {
    return error_of([&] { load(at::zeros({4})); });
  }
  std::vector<std::string> names_in(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& one : std::filesystem::directory_iterator(folder)) {
      names.push_back(one.path().filename().string());
    }
    return names;
  }
  void write(const std::string& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string bytes_of(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  const testing::Folder folder_;
  const std::string path_ = folder_.path() + "/run/last";
  const std::string file_ = path_ + "/shard-00001-model-00001-of-00001.safetensors";
};

}  // namespace distrun
