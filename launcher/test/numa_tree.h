// The files of /proc, /sys and /dev that describe the GPUs and CPUs of a machine, in a temporary
// folder.
//
//     NumaTree tree;
//     tree.add_gpu("0000:17:00.0", /*minor=*/0, "GPU-8932f937", /*node=*/1);
//     tree.add_node(1, "4-7,20-23");
//     auto machine = read_numa_machine(CpuGroup::kNode, allowed, tree.root());
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"

namespace distrun::testing {

class NumaTree {
 public:
  const std::string& root() const { return folder_.path(); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file(root() + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }

  void remove(const std::string& path) const {
    EXPECT_TRUE(std::filesystem::remove(root() + path)) << path;
  }

  // As the NVIDIA driver writes it.
  void add_gpu(const std::string& address, int minor, const std::string& uuid, int node,
               const std::string& excluded = "No") const {
    write("/proc/driver/nvidia/gpus/" + address + "/information",
          fmt::format("Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 261\nGPU UUID: \t {}\n"
                      "Bus Type: \t PCIe\nBus Location: \t {}\nDevice Minor: \t {}\n"
                      "GPU Excluded:\t {}\n",
                      uuid, address, minor, excluded));
    write("/sys/bus/pci/devices/" + address + "/numa_node", std::to_string(node) + "\n");
    write("/dev/nvidia" + std::to_string(minor), "");
  }

  void add_node(int node, const std::string& cpus) const {
    write(fmt::format("/sys/devices/system/node/node{}/cpulist", node), cpus + "\n");
  }

  void add_cpu(int cpu, int socket, const std::string& threads) const {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    write(folder + "physical_package_id", std::to_string(socket) + "\n");
    write(folder + "thread_siblings_list", threads + "\n");
  }

  void add_cache(int cpu, int index, int level, const std::string& type,
                 const std::string& cpus) const {
    const std::string folder =
        fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/", cpu, index);
    write(folder + "level", std::to_string(level) + "\n");
    write(folder + "type", type + "\n");
    write(folder + "shared_cpu_list", cpus + "\n");
  }

 private:
  const Folder folder_;
};

}  // namespace distrun::testing
