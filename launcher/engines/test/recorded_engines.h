// Variables of processes that engines started, as recorded, without those that distrun does not
// read. Those of LSF and Kubernetes are not recorded: they are what the documentation and the
// sources of these engines say.
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

// PRRTE of Open MPI 5.0.11, task 1 of `prterun -n 2`.
inline const Variables kPrterun = {{"PMIX_HOSTNAME", "vm"},
                                   {"PMIX_NAMESPACE", "prterun-vm-16219@1"},
                                   {"PMIX_RANK", "1"},
                                   {"PRTE_LAUNCHED", "1"}};

// LSF 10.1, task 5 of `jsrun -n 4 -a 2`, two tasks on each host. jsrun sets Open MPI's variables,
// too, because IBM Spectrum MPI reads them.
inline const Variables kJsrun = {{"JSM_NAMESPACE_LOCAL_RANK", "1"},
                                 {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
                                 {"JSM_NAMESPACE_RANK", "5"},
                                 {"JSM_NAMESPACE_SIZE", "8"},
                                 {"LSB_DJOB_RANKFILE", "/home/me/.lsbatch/1.hostfile"},
                                 {"LSB_JOBID", "1234"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_RANK", "5"},
                                 {"OMPI_COMM_WORLD_SIZE", "8"},
                                 {"PMIX_NAMESPACE", "3"},
                                 {"PMIX_RANK", "5"}};
inline constexpr const char* kRankFileOfLsf = "batch5\nh07n01\nh07n01\nh07n02\nh07n02\n";

// Kubernetes 1.34, the pod with index 2 of the Job `train`.
inline const Variables kIndexedJob = {{"HOSTNAME", "train-2"},
                                      {"JOB_COMPLETION_INDEX", "2"},
                                      {"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
// As the kubelet writes it for pods with the subdomain `workers`, and with an alias.
inline constexpr const char* kHostsOfPod =
    "# Kubernetes-managed hosts file.\n"
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "10.1.30.129\ttrain-2.workers.team.svc.cluster.local\ttrain-2\n"
    "\n# Entries added by HostAliases.\n"
    "10.9.9.9\ttrain-2.other\ttrain-2\n";

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
