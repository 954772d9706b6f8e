// Handwritten digits and a small network that classifies them, for the examples.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace examples {

struct Samples {
  at::Tensor images;  // n × 64, float, 0 … 1
  at::Tensor digits;  // n, int64
};

struct Digits {
  Samples train, test;
};

// Every fifth sample is a test sample.
inline Digits load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<float> pixels[2];
  std::vector<int64_t> digits[2];
  std::string line;
  for (int64_t row = 0; std::getline(file, line); ++row) {
    const int part = row % 5 == 0 ? 1 : 0;
    std::istringstream fields(line);
    std::string field;
    std::vector<float> numbers;
    while (std::getline(fields, field, ',')) numbers.push_back(std::stof(field));
    if (numbers.size() != 65) {
      throw std::runtime_error(path + " line " + std::to_string(row + 1) + ": not 65 numbers");
    }
    digits[part].push_back(static_cast<int64_t>(numbers.back()));
    pixels[part].insert(pixels[part].end(), numbers.begin(), numbers.end() - 1);
  }
  const auto samples = [&](int part) {
    return Samples{torch::tensor(pixels[part]).view({-1, 64}) / 16, torch::tensor(digits[part])};
  };
  return {samples(0), samples(1)};
}

struct Net : torch::nn::Module {
  torch::nn::Linear hidden{nullptr}, out{nullptr};

  Net() {
    hidden = register_module("hidden", torch::nn::Linear(64, 32));
    out = register_module("out", torch::nn::Linear(32, 10));
  }

  at::Tensor forward(const at::Tensor& images) { return out(at::relu(hidden(images))); }
};

}  // namespace examples
