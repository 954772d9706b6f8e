// Ranks of one host exchange their memory, through Unix sockets.
//
//     auto meeting = HostMeeting::open(rank, ranks);
//     store->set(key_of(rank), meeting->card());
//     auto peers = meeting->meet(cards_of_all_ranks, memory.get(), deadline);
//
// The sockets have no name in the file system, so nothing is left of a killed process. A card names
// the socket, the host and a secret that peers must know.
//
// Thread safety: one thread at a time.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun::shm {

struct HostPeer {
  UniqueFd memory;  // The file that the peer gave. Not checked.
  // Readable once the peer has ended: a pidfd, or a socket if the kernel has none.
  UniqueFd presence;
  pid_t process = 0;  // 0: unknown.
};

class HostMeeting {
 public:
  static Result<HostMeeting> open(int rank, int ranks);

  // Other ranks need it to meet this one. Printable.
  const std::string& card() const { return card_; }

  // The ranks whose cards are not of this rank's host. Without them, meet() can work.
  std::vector<int> elsewhere(const std::vector<std::string>& cards) const;

  // The host of each card: equal texts are one host, and malformed cards have none.
  static std::vector<std::string> hosts(const std::vector<std::string>& cards);
  // The secret of a card; empty if it is malformed.
  static std::string secret(const std::string& card);

  // Gives `memory` to all other ranks and returns what they gave, by rank; this rank's element is
  // empty. Blocks until all have come, or until the deadline; then the error names those missing.
  // `names` are the ranks' numbers in errors.
  Result<std::vector<HostPeer>> meet(const std::vector<std::string>& cards,
                                     const std::vector<int>& names, int memory,
                                     std::chrono::steady_clock::time_point deadline);

 private:
  HostMeeting(int rank, UniqueFd socket, std::string host, std::string secret, std::string card)
      : rank_(rank),
        socket_(std::move(socket)),
        host_(std::move(host)),
        secret_(std::move(secret)),
        card_(std::move(card)) {}

  int rank_;
  UniqueFd socket_;
  std::string host_;
  std::string secret_;
  std::string card_;
};

}  // namespace distrun::shm
