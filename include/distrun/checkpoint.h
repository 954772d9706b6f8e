// Distributed checkpoints: all ranks save their parts of a model in parallel, and another number
// of ranks can load it.
//
//     CheckpointState state;
//     state.add_module(*net);                  // A module, also with FSDP and tensor parallelism.
//     state.add_optimizer(optimizer, *net);
//     state.add("step", step);                 // A tensor that all ranks have.
//     save_checkpoint("run/checkpoint", state);
//     …
//     load_checkpoint("run/checkpoint", state);  // Into the same tensors, on any number of ranks.
//
// A checkpoint is a folder.  It contains safetensors files, and checkpoint.json, which lists the
// files with their checksums.  Each rank writes one or a few of the files.  All ranks must see the
// same folder, for example on a network file system.
//
// A tensor that is divided among ranks has entries in several files.  The metadata of a file says
// which part of the tensor an entry is, as that of PyTorch's HuggingFaceStorageWriter does.  Python
// loads the folder on any number of ranks:
//
//     from torch.distributed.checkpoint import HuggingFaceStorageReader, load
//     state = model.state_dict()
//     load(state, storage_reader=HuggingFaceStorageReader("run/checkpoint"))
//
// and load_checkpoint() loads a folder with safetensors files that Python has written.
//
// A checkpoint is written whole or not at all.  The files first go to a new folder,
// PATH.unfinished.  When the files of all ranks are on the disk, the new folder takes the place of
// the old one in one step.  If the first rank is killed before that, the old checkpoint and
// PATH.unfinished remain.  If another rank is killed, only the old checkpoint remains, unless the
// launcher kills the first rank too.  The next save_checkpoint() to the path removes
// PATH.unfinished.  You may also delete it if no save to the path is in progress, for example if
// each checkpoint has its own path.
//
// If the file system cannot exchange folders in one step, as NFS cannot, the old folder has the
// name PATH.old for a moment.  If the ranks are killed in that moment, load_checkpoint() loads
// PATH.old.  If PATH exists too, you may delete PATH.old.
//
// Only one save to a path can be in progress: a second one, also that of another program, throws.
// On a file system that cannot lock folders (flock(2)), as NFS cannot, this is not detected, and
// the programs must take care.  If the path is a link to a folder, the folder is replaced, and the
// link remains.  A folder that has anything but a checkpoint, or that is a mount point, is never
// replaced.
//
// Blocks: save_checkpoint() and load_checkpoint() block until all ranks have saved or loaded.  If
// this takes longer than the group's timeout, they throw.
// Thread safety: one thread at a time for each group.
// PyTorch source: torch/distributed/checkpoint/ (state_dict_saver.py, state_dict_loader.py,
// hf_storage.py).
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/group.h"

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace distrun {

namespace internal {

struct AddedOptimizer;
struct CheckpointAccess;

}  // namespace internal

// The part of a tensor that a rank has.
struct CheckpointPart {
  std::string name;                   // Of the whole tensor.
  std::vector<std::int64_t> sizes;    // Of the whole tensor.
  std::vector<std::int64_t> offsets;  // Of the first element of the part, in each dimension.
  at::Tensor values;                  // The part.  load_checkpoint() writes to its memory.
};

// The tensors that save_checkpoint() saves and load_checkpoint() loads.  It refers to the tensors
// and does not copy them.  All ranks add the same names; with parts, each rank adds its own.  Make
// a new state for each save and load, because a later forward() of a sharded module gathers
// parameters again.
class CheckpointState {
 public:
  // Adds the parameters and buffers of `module`.  Their names are those in the module, after
  // `prefix`, without FullyShardedDataParallel, and with the layers that tensor parallel layers
  // replace.  Pass ddp.module() of a DistributedDataParallel.  A parameter that several
  // modules share is saved under each of its names, as Python's load() needs them all.
  // load_checkpoint() needs one of the names.  Gathered parameters are freed.
  //
  // Throws: c10::ValueError as add_part().
  void add_module(torch::nn::Module& module, const std::string& prefix = "");

  // Adds what an optimizer keeps of the parameters of `module`, such as the averages of Adam,
  // divided as the parameters are.  The names are those of Python:
  // "optim.state.layer.weight.exp_avg".  The options of the optimizer, such as the learning rate,
  // are not part of a checkpoint.  The optimizer and the module must exist until the state is saved
  // or loaded.  load_checkpoint() removes what the optimizer keeps of a parameter if the checkpoint
  // has nothing of it.  If the checkpoint has a part of it, for example all but the momentum, the
  // rest keeps its values.
  //
  // Throws: c10::TypeError if the optimizer is not SGD, Adam, AdamW, RMSprop or Adagrad.
  // Also throws c10::ValueError if `module` does not have one of its parameters.
  void add_optimizer(torch::optim::Optimizer& optimizer, torch::nn::Module& module,
                     const std::string& prefix = "optim.");

  // Adds a tensor of which all ranks have the same values.
  //
  // Throws: c10::ValueError as add_part().
  void add(const std::string& name, const at::Tensor& tensor);

  // Adds this rank's part of a tensor that is divided among ranks.  Several parts of a tensor can
  // be on one rank, and a part can be on several ranks, which then have the same values.
  //
  // Throws: c10::ValueError if the part is not within the sizes, if this rank has added it before,
  // if it is an undefined, sparse or meta tensor, or if safetensors files cannot store the dtype
  // (complex double, quantized types).
  void add_part(CheckpointPart part);

  // Returns the parts in the order in which they were added, without those of optimizers.
  const std::vector<CheckpointPart>& parts() const { return parts_; }

 private:
  friend struct internal::CheckpointAccess;

  std::vector<CheckpointPart> parts_;
  std::set<std::pair<std::string, std::vector<std::int64_t>>> added_;  // Names and offsets.
  std::vector<std::shared_ptr<const internal::AddedOptimizer>> optimizers_;
};

// Options of save_checkpoint() and load_checkpoint().
struct CheckpointOptions {
  // The ranks that save or load together.  Without a default group, this process is alone.
  Group process_group = {};
};

// Saves the state to a folder, which may be an older checkpoint.  If several ranks have the same
// part of a tensor, one of them saves it.  Every rank of the group must call it, with the same
// path.
//
// Throws: c10::ValueError if ranks have different sizes or dtypes of a tensor, if parts overlap, or
// if a part is missing.
// Also throws c10::Error if another save to the path is in progress, or if a rank cannot write, for
// example because the disk is full.  The text names the rank and the file.  All ranks throw, and
// the old checkpoint remains.
// Also throws the exceptions of collectives.h.
// Cost: each rank writes its share, and waits until the share is on the disk.
void save_checkpoint(const std::string& path, const CheckpointState& state,
                     const CheckpointOptions& options = {});

// Loads the state from a folder.  Each rank reads its parts from the files that contain them.
// Tensors of the checkpoint that are not in `state` are ignored.  Values are converted to the
// dtypes of `state`.  Every rank of the group must call it, with the same path.
//
// Throws: c10::ValueError if the checkpoint lacks a tensor of `state`, or has it with other sizes,
// or if ranks pass different paths.  The values of `state` are then unchanged.
// Also throws c10::Error if a file cannot be read or is damaged, if another program replaces the
// checkpoint meanwhile, or if a newer distrun has written it in another format.  The text names the
// path, and for a file also the rank.  All ranks throw.  Values of `state` may then have changed.
// Also throws the exceptions of collectives.h.
// Cost: each rank reads the headers of all files.  It needs memory for up to 64 MiB of a tensor, or
// for one row if a row is larger.
void load_checkpoint(const std::string& path, CheckpointState& state,
                     const CheckpointOptions& options = {});

}  // namespace distrun
