// SpawnFunction gives a function a name, so that a process that spawn() starts can find the
// function.
//
//     void worker(int index, SpawnArguments& arguments) { … }
//     const SpawnFunction kWorker("worker", worker);  // At namespace scope.
//
// A spawned process executes the program again.  It gets the name of the function and the arguments
// from its parent, and finds the function by its name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/tensor_queue.h"

namespace distrun {

// The arguments that the function gets in every process.
struct SpawnArguments {
  std::vector<at::Tensor> tensors = {};  // In shared memory: all processes see all changes.
  std::vector<TensorQueue> queues = {};  // Each process gets a holder (tensor_queue.h).
  std::string text = {};                 // Any bytes.  Each process gets a copy.
};

// A function and its name.  The name is the same in every process of the program.
class SpawnFunction {
 public:
  // `index` is the number of the process, from 0.
  using Function = std::function<void(int index, SpawnArguments& arguments)>;

  // Registers the function until this object is destroyed.  If two registered functions have the
  // same name, spawn() throws c10::ValueError.
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
