// Our store as a process: prints "PORT NAME", and serves until its stdin ends.
#include <iostream>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <unistd.h>

#include "distrun/store_server.h"

int main() {
  boost::asio::io_context io{1};
  const auto server = distrun::StoreServer::listen(io, {});
  if (!server) {
    std::cerr << "distrun_server: " << server.error().message << '\n';
    return 1;
  }
  std::cout << (*server)->port() << " distrun" << std::endl;

  // stdin becomes readable when it ends.
  boost::asio::posix::stream_descriptor input(io, STDIN_FILENO);
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [&io](boost::system::error_code) { io.stop(); });
  io.run();
}
