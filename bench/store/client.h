// BenchStoreClient is a client of a store that costs as little as one can: a blocking socket,
// frames that were made beforehand, replies of a known length.
//
//     BenchStoreClient client(port);
//     client.send(frame);
//     const auto sum = client.receive<std::int64_t>();
//
// Every call throws std::runtime_error where the connection ends or the server is silent for
// kSilenceMax: a benchmark cannot go on then.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/os/unique_fd.h"

namespace distrun::bench {

inline constexpr std::chrono::seconds kSilenceMax{30};

class BenchStoreClient {
 public:
  // Connects to the loopback, validates and waits for a ping to come back: the server has accepted.
  explicit BenchStoreClient(std::uint16_t port);

  void send(std::string_view bytes);

  // The reply's next bytes.
  template <class Number>
  Number receive() {
    Number number;
    receive(reinterpret_cast<char*>(&number), sizeof(number));
    return number;
  }
  // Takes so many bytes and does not look at them.
  void skip(std::size_t size);

 private:
  void receive(char* to, std::size_t size);

  UniqueFd socket_;
};

}  // namespace distrun::bench
