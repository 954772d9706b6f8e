// Names functions for spawn(), so that a fresh process can find them.
//
//     void worker(int index, SpawnArguments& arguments) { … }
//     const SpawnFunction kWorker("worker", worker);  // At namespace scope.
//
// A spawned process executes the program again.  Its parent sends it only the function's name and
// the arguments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/tensor_queue.h"

namespace distrun {

// The arguments of every process.
struct SpawnArguments {
  std::vector<at::Tensor> tensors = {};  // In shared memory: all processes see every change.
  std::vector<TensorQueue> queues = {};  // Each process holds them.
  std::string text = {};                 // Any bytes.
};

// A function with a name.  The name is the same in every process of the program.
class SpawnFunction {
 public:
  // Its first argument is the index of the process, from 0.
  using Function = std::function<void(int index, SpawnArguments& arguments)>;

  // Registers the function until this object is destroyed.  If two functions have the same name,
  // spawn() throws.
  SpawnFunction(std::string name, Function function);
  ~SpawnFunction();
  SpawnFunction(const SpawnFunction&) = delete;
  SpawnFunction& operator=(const SpawnFunction&) = delete;

  // Returns the name.
  const std::string& name() const { return name_; }
  // Returns the function.
  const Function& function() const { return function_; }

 private:
  std::string name_;
  Function function_;
};

}  // namespace distrun
