#include "testsuites/harness/protocol/rank_variables.h"

#include "common/text/file_url.h"

namespace distrun {

std::string rank_mark(const std::string& text) {
  constexpr std::size_t kMarkBytes = 48;
  std::string mark = text.substr(0, kMarkBytes);
  mark.resize(kMarkBytes, '-');
  return mark;
}

std::map<std::string, std::string> rank_variables(const RankPlace& place) {
  const std::string rank = std::to_string(place.rank), ranks = std::to_string(place.ranks);
  std::map<std::string, std::string> variables = {
      {"RANK", rank},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"WORLD_SIZE", ranks},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_ranks)},
      {"OMP_NUM_THREADS", "1"},
      {"TMPDIR", rank_folder(place.folder, place.rank)},
      {kTestFolderVariable, place.folder},
      {kTestNodesVariable, std::to_string(place.nodes)},
      {kTestBackendVariable, place.backend},
      {kTestSeedVariable, std::to_string(place.seed)},
  };
  if (place.store_port == 0) {
    variables["DISTRUN_INIT_METHOD"] = file_url(place.folder + "/init").value();
  } else {  // As in worker_environment.h.
    variables["DISTRUN_INIT_METHOD"] = "env://";
    variables["GROUP_RANK"] = std::to_string(place.node);
    variables["GROUP_WORLD_SIZE"] = std::to_string(place.nodes);
    variables["ROLE_NAME"] = "default";
    variables["ROLE_RANK"] = rank;
    variables["ROLE_WORLD_SIZE"] = ranks;
    variables["TORCHELASTIC_RESTART_COUNT"] = "0";
    variables["TORCHELASTIC_MAX_RESTARTS"] = "0";
    variables["TORCHELASTIC_RUN_ID"] = "none";
    variables["MASTER_ADDR"] = place.store_host;
    variables["MASTER_PORT"] = std::to_string(place.store_port);
    variables["DISTRUN_STORE"] = place.store_text;
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  }
  if (place.is_debugged) variables[kTestDebuggedVariable] = "1";
  return variables;
}

std::string rank_folder(const std::string& folder, int rank) {
  return folder + "/rank_" + std::to_string(rank);
}

}  // namespace distrun
