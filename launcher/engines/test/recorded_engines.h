// Variables of processes that engines started, as recorded, without those that distrun does not
// read.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/os/environment.h"

namespace distrun::test {

// Without a value: the variable is not set.
using Variables = std::map<std::string, std::optional<std::string>>;

// Slurm 22.05, task 2 of `srun --nodes 2 --ntasks 3`.
inline const Variables kSlurmStep = {{"SLURMD_NODENAME", "n09"},
                                     {"SLURM_JOB_ID", "77"},
                                     {"SLURM_JOB_NODELIST", "n[08-09]"},
                                     {"SLURM_LAUNCH_NODE_IPADDR", "192.0.2.1"},
                                     {"SLURM_LOCALID", "0"},
                                     {"SLURM_NODEID", "1"},
                                     {"SLURM_NTASKS", "3"},
                                     {"SLURM_PROCID", "2"},
                                     {"SLURM_STEP_ID", "0"},
                                     {"SLURM_STEP_NODELIST", "n[08-09]"},
                                     {"SLURM_STEP_NUM_NODES", "2"},
                                     {"SLURM_STEP_NUM_TASKS", "3"},
                                     {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};

// Slurm 22.05, a script of `sbatch --nodes 2 --ntasks-per-node 1`.
inline const Variables kSlurmBatchScript = {{"SLURMD_NODENAME", "n0"},
                                            {"SLURM_JOB_ID", "3"},
                                            {"SLURM_JOB_NODELIST", "n[0-1]"},
                                            {"SLURM_LOCALID", "0"},
                                            {"SLURM_NODEID", "0"},
                                            {"SLURM_NTASKS", "2"},
                                            {"SLURM_PROCID", "0"},
                                            {"SLURM_TASKS_PER_NODE", "1(x2)"}};

// Open MPI 5.0.11, task 1 of `mpirun -n 2`.
inline const Variables kOpenMpi = {{"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                                   {"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"PMIX_NAMESPACE", "prterun-vm-6757@1"},
                                   {"PMIX_RANK", "1"}};

// MPICH 5.0.2, task 0 of `mpiexec -n 2`.
inline const Variables kMpich = {{"HYDI_CONTROL_FD", "7"}, {"MPI_LOCALNRANKS", "2"},
                                 {"MPI_LOCALRANKID", "0"}, {"PMI_FD", "11"},
                                 {"PMI_RANK", "0"},        {"PMI_SIZE", "2"}};

inline Environment environment_of(const Variables& variables, const Variables& changes = {}) {
  Environment environment;
  for (const Variables& each : {variables, changes}) {
    for (const auto& [name, value] : each) {
      if (value) {
        environment.set(name, *value);
      } else {
        environment.unset(name);
      }
    }
  }
  return environment;
}

}  // namespace distrun::test
