#include "cli/store_serve_command.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ostream>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/flags.h"
#include "common/os/unique_fd.h"
#include "common/text/parse_number.h"
#include "common/units.h"
#include "launcher/outcome/run_end.h"
#include "launcher/process/worker_process.h"

namespace distrun {

namespace {

constexpr const char* kStoreServeHelp =
    R"(When the store listens, the command prints HOST:PORT.  SIGINT, SIGTERM or SIGHUP stops the store.

The store has no authentication: every client can read and change every key.  On a loopback address
such as 127.0.0.1, every user of this machine can connect.  On any other address, every machine that
can reach the address can connect.  With --same-user, only your user and root can connect, and only
from this machine.

The --max flags limit what clients can do.  If a client reaches --max-unread, the store stops
reading the client's requests until the client has read answers.  If a request or a new connection
exceeds another limit, the store closes the connection and prints the reason on stderr.  SIZE is a
number of bytes, or a number of KiB, MiB or GiB with the suffix K, M or G: 64M is 64 MiB.

Exit status:
  0    a signal stopped the store
  2    wrong usage, or the file of --port-file cannot be opened
  125  the address is in use, or another error occurred

Examples:
  distrun store serve --port 29500
  distrun store serve --port-file /tmp/port &     # free port, written to /tmp/port
  distrun store serve --host :: --port 29500      # all addresses, IPv4 and IPv6

Documentation: docs/store-protocol.md, docs/errors.md)";

constexpr int kRefusalsPrinted = 100;

// Appears with its whole content, and is removed at the end.
class PortFile {
 public:
  static Result<PortFile> write(const std::string& path, std::uint16_t port) {
    if (path.empty()) return PortFile("", UniqueFd());
    struct stat there {};
    if (::lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
      return Error{ErrorKind::kInvalidArgument,
                   "cannot write --port-file " + path + ": it exists and is not a regular file"};
    }
    std::string unfinished = path + ".XXXXXX";
    UniqueFd fd(::mkostemp(unfinished.data(), O_CLOEXEC));
    if (!fd) {
      return Error{ErrorKind::kInvalidArgument,
                   Error::from_errno("cannot write --port-file " + path).message};
    }
    const std::string text = fmt::format("{}\n", port);
    const auto size = static_cast<ssize_t>(text.size());
    if (::write(fd.get(), text.data(), text.size()) != size || ::fchmod(fd.get(), 0644) != 0 ||
        std::rename(unfinished.c_str(), path.c_str()) != 0) {
      Error error = Error::from_errno("cannot write --port-file " + path);
      ::unlink(unfinished.c_str());
      return error;
    }
    return PortFile(path, std::move(fd));
  }

  PortFile(PortFile&&) noexcept = default;
  PortFile& operator=(PortFile&&) = delete;

  // Removes it unless another server has replaced it.
  ~PortFile() {
    struct stat own {
    }, there{};
    if (!fd_ || ::fstat(fd_.get(), &own) != 0 || ::stat(path_.c_str(), &there) != 0) return;
    if (own.st_dev == there.st_dev && own.st_ino == there.st_ino) ::unlink(path_.c_str());
  }

 private:
  PortFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  UniqueFd fd_;
};

}  // namespace

StoreServeCommand::StoreServeCommand(CLI::App& store)
    : command_(store.add_subcommand("serve", "Run a store until a signal stops the store.")) {
  CLI::App& serve = *command_;
  serve.formatter(std::make_shared<HelpFormatter>("distrun store serve [flags]"));
  serve.footer(kStoreServeHelp);
  own_flag(serve, "host", options_.host,
           "IP address to listen on, IPv4 or IPv6. localhost means 127.0.0.1.")
      ->type_name("ADDRESS");
  own_flag(serve, "port", port_, "Port to listen on. 0 means a free port.")->type_name("PORT");
  own_flag(serve, "port-file", port_file_,
           "Write the port to FILE when the store listens, and remove FILE when the store stops.")
      ->type_name("FILE");
  own_flag(serve, "listen-fd", listen_fd_,
           "Use the listening TCP socket that the parent process opened as file descriptor FD, "
           "instead of --host and --port.")
      ->type_name("FD");
  own_flag(serve, "same-user", options_.same_user,
           "Accept only clients on this machine that run as your user or as root.");
  own_flag(serve, "max-connections", max_connections_, "Maximum number of connections.")
      ->type_name("N");
  own_flag(serve, "max-key", max_key_, "Maximum size of a key. The flag accepts at most 1G.")
      ->type_name("SIZE");
  own_flag(serve, "max-value", max_value_, "Maximum size of a value. The flag accepts at most 1G.")
      ->type_name("SIZE");
  own_flag(serve, "max-unread", max_unread_,
           "Maximum size of the answers that one client has not read yet.")
      ->type_name("SIZE");
  own_flag(serve, "max-memory", max_memory_,
           "Maximum memory for keys, values, waiting clients, requests and answers.")
      ->type_name("SIZE");
  add_help_flag(serve);
}

void StoreServeCommand::check(const Environment&) {
  const auto number = [](const std::string& flag, const std::string& text, auto min, auto max) {
    const auto parsed = parse_number(text, min, max);
    if (!parsed) throw CLI::ValidationError(flag, parsed.error().message);
    return *parsed;
  };
  if (options_.host == "localhost") options_.host = "127.0.0.1";
  options_.port = number("--port", port_, std::uint16_t{0}, std::uint16_t{65535});
  if (command_->count("--port-file") > 0 && port_file_.empty()) {
    throw CLI::ValidationError("--port-file", "needs a file name");
  }
  if (command_->count("--listen-fd") > 0) {
    options_.listen_fd = number("--listen-fd", listen_fd_, 0, 1 << 30);
    if (command_->count("--host") + command_->count("--port") > 0) {
      throw CLI::ValidationError("--listen-fd", "cannot be combined with --host or --port");
    }
  }
  StoreLimits& limits = options_.limits;
  limits.connections_max =
      number("--max-connections", max_connections_, std::size_t{1}, std::size_t{1} << 30);
  limits.key_bytes_max = bytes_from("--max-key", max_key_);
  limits.value_bytes_max = bytes_from("--max-value", max_value_);
  limits.unread_bytes_max = bytes_from("--max-unread", max_unread_);
  limits.memory_bytes_max = bytes_from("--max-memory", max_memory_);
  if (limits.key_bytes_max > 1 * kGiB) throw CLI::ValidationError("--max-key", "is more than 1G");
  if (limits.value_bytes_max > 1 * kGiB) {
    throw CLI::ValidationError("--max-value", "is more than 1G");
  }
  // The largest value must fit into a request, twice for compare_set, and into an answer.
  const std::size_t largest = limits.key_bytes_max + 2 * limits.value_bytes_max + kKiB;
  limits.request_bytes_max = std::max(limits.request_bytes_max, largest);
  limits.reply_bytes_max = std::max(limits.reply_bytes_max, largest);
}

int StoreServeCommand::run(const Environment&, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const Error& error) {
    err << "distrun store serve: ";
    if (error.kind == ErrorKind::kAddressNotLocal) err << "--host ";
    err << error.message;
    if (error.kind == ErrorKind::kAddressInUse) err << "; give another --port, or 0 for a free one";
    err << '\n';
    return exit_status(error);
  };
  allow_many_descriptors();  // One per connection.
  boost::asio::io_context io(1);
  ::signal(SIGPIPE, SIG_IGN);  // Keeps serving when stdout's reader exits.
  boost::asio::signal_set signals(io);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Ignored signals stay ignored, as under nohup.
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) signals.add(signal);
  }
  signals.async_wait([&](boost::system::error_code error, int) {
    if (!error) io.stop();
  });

  int refusals = 0;
  options_.on_refused = [&](const std::string& address, const Error& reason) {
    if (++refusals > kRefusalsPrinted) return;
    err << "distrun store: refused " << address << ": " << reason.message << '\n';
    if (refusals == kRefusalsPrinted) {
      err << "distrun store: more refusals are not printed; see 'distrun store status'\n";
    }
    err << std::flush;
  };
  auto server = StoreServer::listen(io, options_);
  if (!server) return fail(server.error());
  const auto port_file = PortFile::write(port_file_, (*server)->port());
  if (!port_file) return fail(port_file.error());
  out << (*server)->address() << '\n' << std::flush;
  io.run();
  return 0;
}

}  // namespace distrun
