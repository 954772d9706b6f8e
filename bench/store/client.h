// BenchStoreClient is the cheapest possible client of a store: a blocking socket, prepared frames,
// replies of a known length.
//
//     BenchStoreClient client(port);
//     client.send(frame);
//     const auto sum = client.receive<std::int64_t>();
//
// Calls throw std::runtime_error if the connection ends or the server is silent for kSilenceMax.
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
  // Connects over loopback, validates, and waits for the reply to a ping, which shows that the
  // server has accepted.
  explicit BenchStoreClient(std::uint16_t port);

  void send(std::string_view bytes);

  template <class Number>
  Number receive() {
    Number number;
    receive(reinterpret_cast<char*>(&number), sizeof(number));
    return number;
  }
  void skip(std::size_t size);

 private:
  void receive(char* to, std::size_t size);

  UniqueFd socket_;
};

}  // namespace distrun::bench
