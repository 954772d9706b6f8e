// StoreProbe finds out whether a program that closes the connections of nodes is a store.
//
//     StoreProbe probe(io, endpoint, [&](StoreProbe::Found found) { … });
//
// It connects as a client of the store, and sends a ping. Torchrun's agent at the address of node 0
// answers it, and so does a distrun without other nodes.
//
// The handler is called at most once, and never after the StoreProbe is destroyed. The caller must
// set a timeout.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace distrun {

class StoreProbe {
 public:
  enum class Found {
    kNoStore,
    kTcpStore,      // PyTorch's.
    kDistrunStore,  // It answers a request that PyTorch's does not have.
  };

  StoreProbe(boost::asio::io_context& io, const boost::asio::ip::tcp::endpoint& at,
             std::function<void(Found)> handler);
  ~StoreProbe();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace distrun
