// Functions that processes can be started for, by a name that is the same in parent and process.
//
//     void worker(int index, SpawnArguments& arguments) { … }
//     const SpawnFunction kWorker("worker", worker);  // at namespace scope
//
// A fresh process is the same program from its beginning, so all that it has of the parent's is
// what it is handed: the function's name, and the arguments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/tensor_queue.h"

namespace distrun {

// What every process is handed.  The tensors' memory is the parent's: what one writes the others
// see.
struct SpawnArguments {
  std::vector<at::Tensor> tensors = {};
  std::vector<TensorQueue> queues = {};
  std::string text = {};
};

class SpawnFunction {
 public:
  // The function gets the index of its process, from 0 on.
  using Function = std::function<void(int index, SpawnArguments& arguments)>;

  // Registers it.  A name is one function's: where two have it, spawn() throws.
  SpawnFunction(std::string name, Function function);
  ~SpawnFunction();
  SpawnFunction(const SpawnFunction&) = delete;
  SpawnFunction& operator=(const SpawnFunction&) = delete;

  const std::string& name() const { return name_; }
  const Function& function() const { return function_; }

 private:
  std::string name_;
  Function function_;
};

}  // namespace distrun
