// LogChoice says which output goes to the console, with which prefix, and which to log files.
//
//     auto redirects = parse_streams("0:3,11:1", workers);   // both of local rank 0, stdout of 11
//     StreamRoute route = route_of(choice, "/logs/run_x1", LocalRank(11), Stream::kOut, attempt);
//     route.file       // "/logs/run_x1/attempt_0/11/stdout.log"
//     route.piped      // false: the worker's stdout is that file
//
// Flags, values and folder layout are torchrun's (torch/distributed/run.py and
// elastic/multiprocessing/api.py):
//
//     LOG_DIR/RUN_ID_random/attempt_0/3/{stdout.log,stderr.log,error.json}
//     LOG_DIR/RUN_ID_random/attempt_0/filtered_{stdout,stderr}.log
//
// Unlike torchrun, distrun accepts local ranks of several digits and rejects missing ones. Pure;
// log_folder.h creates the folder.
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

// The value of -r or -t.
struct StreamsByRank {
  enum : int { kNone = 0, kOut = 1, kErr = 2, kBoth = 3 };
  int all = kNone;  // For local ranks that are not in `some`.
  std::map<LocalRank, int> some;

  bool has(LocalRank worker, Stream stream) const;
  bool is_any() const;
};

struct LogChoice {
  std::string folder;  // --log-dir; empty: not given.
  StreamsByRank redirects, tees;
  std::optional<std::set<LocalRank>> shown;  // On the console; nullopt: all.
  std::vector<std::string> out_filters, err_filters;
  std::optional<PrefixTemplate> prefix;                     // For every console line,
  PrefixTemplate tee_prefix = PrefixTemplate::torchruns();  // or, if unset, for teed lines.
  std::string host;                                         // ${host}

  // With --log-dir /dev/null no file is written, not even an error file; streams of -r and -t go to
  // the console.
  bool is_off() const { return folder == "/dev/null"; }

  // Whether the run's folder remains.
  bool keeps_files() const;

  const std::vector<std::string>& filters(Stream stream) const;
};

// What the choice says about one worker, which is local rank 0 of its distrun.
LogChoice log_choice_of(LogChoice choice, LocalRank worker);

// Parses "0" to "3", or "LOCAL_RANK:VALUE,…". Fails with kInvalidArgument, which shows the expected
// form or the local rank that does not exist.
Result<StreamsByRank> parse_streams(std::string_view text, int workers);

// Parses "0,2"; nullopt (all) if empty. Fails as above.
Result<std::optional<std::set<LocalRank>>> parse_local_ranks(std::string_view text, int workers);

// Substrings separated by commas; ",," is a literal comma.
std::vector<std::string> parse_filters(std::string_view text);

// Where the output of one stream of a worker goes.
struct StreamRoute {
  std::string file;   // Empty: no file.
  bool piped = true;  // False: `file` is the worker's descriptor itself.
  bool teed = false;  // To `file` and the console.
  bool shown = true;  // On the console.
};

// log_folder.h creates `run_folder`.
StreamRoute route_of(const LogChoice& choice, const std::string& run_folder, LocalRank worker,
                     Stream stream, int attempt);

// "RUN_FOLDER/attempt_0", and a worker's folder in it: "…/3".
std::string attempt_folder(const std::string& run_folder, int attempt);
std::string worker_folder(const std::string& run_folder, LocalRank worker, int attempt);

// "…/attempt_0/filtered_stdout.log"
std::string filtered_file(const std::string& run_folder, Stream stream, int attempt);

// The first part of the run's folder name: the run's id, made valid as a file name.
std::string folder_name(std::string_view run_id);

}  // namespace distrun
