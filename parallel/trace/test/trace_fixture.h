#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "distrun/trace.h"

namespace distrun {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

inline at::Tensor numbers(double first = 0) {
  return at::arange(6, at::kFloat).view({2, 3}) + first;
}

inline std::string names_of(const Trace& trace) {
  std::string names;
  for (const Node& node : trace.graph().nodes()) names += (names.empty() ? "" : " ") + node.name;
  return names;
}

inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return std::string("ValueError: ") + error.what_without_backtrace();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

inline void expect_equal(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].equal(expected[i])) << i << ":\n" << got[i] << "\nexpected\n" << expected[i];
  }
}

inline Tensors clones(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back(one.detach().clone());
  return all;
}

// Expects a replay on `other` to equal the function in results and changed inputs.
inline Trace expect_replays(const Function& function, const Tensors& inputs, const Tensors& other) {
  const Trace its = trace(function, clones(inputs));
  const Tensors eager = clones(other), given = clones(other);
  const Tensors expected = function(eager);
  expect_equal(its.replay(given), expected);
  expect_equal(given, eager);
  return its;
}

}  // namespace distrun
