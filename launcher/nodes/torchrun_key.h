// run_of_torchrun_key recognizes the keys by which torchrun's agents meet in a store.
//
//     run_of_torchrun_key("/none/torchelastic/role_info/1")   // "none": its --rdzv-id
//     run_of_torchrun_key("/torch.rendezvous.job7")           // "job7"
//     run_of_torchrun_key("/init/")                           // nullopt
//
// Workers of torchrun and of distrun do not use such keys.
//
// Pure.
#pragma once

#include <optional>
#include <string_view>

namespace distrun {

// The name of the agent's run; nullopt for other keys.
std::optional<std::string_view> run_of_torchrun_key(std::string_view key);

}  // namespace distrun
