#include "parallel/test/tensor_files.h"

#include <fstream>
#include <iterator>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/serialize.h>

namespace distrun::testing {

TensorDict load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  TORCH_CHECK(file, "cannot read ", path.string());
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  TensorDict tensors;
  for (const auto& one : torch::pickle_load(bytes).toGenericDict()) {
    tensors.insert(one.key().toStringRef(), one.value().toTensor());
  }
  return tensors;
}

void save(const std::filesystem::path& path, const TensorDict& tensors) {
  const std::vector<char> bytes = torch::pickle_save(tensors);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  TORCH_CHECK(file.flush(), "cannot write ", path.string());
}

}  // namespace distrun::testing
