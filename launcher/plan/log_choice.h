// LogChoice says where the output of a run goes besides the console, which of it reaches the
// console, and with what before each line.
//
//     auto redirects = parse_streams("0:3,11:1", workers);   // both of local rank 0, stdout of 11
//     StreamRoute route = route_of(choice, "/logs/run_x1", LocalRank(11), Stream::kOut, attempt);
//     route.file       // "/logs/run_x1/attempt_0/11/stdout.log"
//     route.piped      // false: the worker's stdout is that file
//
// Flags, values and the layout of the folders are torchrun's (torch/distributed/run.py and
// elastic/multiprocessing/api.py):
//
//     LOG_DIR/RUN_ID_random/attempt_0/3/{stdout.log,stderr.log,error.json}
//     LOG_DIR/RUN_ID_random/attempt_0/filtered_{stdout,stderr}.log
//
// Unlike there a local rank may have several digits, and one that does not exist is an error.
// Pure; the folder is made by log_folder.h.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/rank.h"
#include "distrun/result.h"
#include "launcher/output/line_prefix.h"

namespace distrun {

enum class Stream { kOut, kErr };
std::string_view name_of(Stream stream);  // "stdout", "stderr"

// Streams of workers: the value of -r and of -t.
struct StreamsByRank {
  enum : int { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };
  int all = kNone;  // Of the local ranks that are not in `some`.
  std::map<LocalRank, int> some;

  bool has(LocalRank worker, Stream stream) const;
  bool is_any() const;
};

struct LogChoice {
  std::string folder;  // --log-dir; empty: none is named.
  StreamsByRank redirects, tees;
  std::optional<std::set<LocalRank>> shown;  // Only these reach the console; nothing: all do.
  std::vector<std::string> out_filters, err_filters;
  std::optional<PrefixTemplate> prefix;                     // Of every line on the console,
  PrefixTemplate tee_prefix = PrefixTemplate::torchruns();  // or where none, of those teed.
  std::string host;                                         // ${host}

  // --log-dir /dev/null: no file is written, error files included; what -r and -t ask for goes to
  // the console, as it would without them.
  bool is_off() const { return folder == "/dev/null"; }

  // A folder for the run is asked for, and stays.
  bool keeps_files() const;

  const std::vector<std::string>& filters(Stream stream) const;
};

// "0" to "3", or "LOCAL_RANK:VALUE,…".  Fails with kInvalidArgument, naming the form, or the local
// rank that is not there.
Result<StreamsByRank> parse_streams(std::string_view text, int workers);

// "0,2": empty for all.  Fails likewise.
Result<std::optional<std::set<LocalRank>>> parse_local_ranks(std::string_view text, int workers);

// What lines are to contain, separated by commas; ",," is a comma.
std::vector<std::string> parse_filters(std::string_view text);

// Where the output of one stream of a worker goes.
struct StreamRoute {
  std::string file;   // Empty: none.
  bool piped = true;  // distrun reads it; else `file` is the worker's descriptor.
  bool teed = false;  // To `file` and the console.
  bool shown = true;  // It reaches the console.
};

// `run_folder` is the run's, as log_folder.h makes it.
StreamRoute route_of(const LogChoice& choice, const std::string& run_folder, LocalRank worker,
                     Stream stream, int attempt);

// "RUN_FOLDER/attempt_0", and in it the folder of a worker: "…/3".
std::string attempt_folder(const std::string& run_folder, int attempt);
std::string worker_folder(const std::string& run_folder, LocalRank worker, int attempt);

// "…/attempt_0/filtered_stdout.log"
std::string filtered_file(const std::string& run_folder, Stream stream, int attempt);

// What the name of the run's folder begins with: the run's id, as far as that can be in a name.
std::string folder_name(std::string_view run_id);

}  // namespace distrun
