// For tests: a store client that writes raw frames and reads answers as bytes, to compare two
// servers.
//
//     Connection connection(port);
//     connection.send(greeting());
//     connection.ask({.code = RequestCode::kGet, .keys = {"k"}});
//     Answer answer = connection.answer_to(request);
//
// Every wait is bounded. A missing answer is a value too: Answer::End says what happened.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/os/unique_fd.h"
#include "common/units.h"
#include "store/protocol/request.h"
#include "store/test/frames.h"

namespace distrun::testing {

inline constexpr int kAnswerBoundS = 10;      // Later answers count as none.
inline constexpr std::size_t kShownMax = 80;  // Bytes of a text in a report.

inline std::string shown(std::string_view bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  for (const char byte : bytes.substr(0, kShownMax)) {
    if (byte >= ' ' && byte <= '~' && byte != '\\') {
      line += byte;
    } else {
      const auto value = static_cast<unsigned char>(byte);
      line.append("\\x").append(1, kHex[value / 16]).append(1, kHex[value % 16]);
    }
  }
  if (bytes.size() > kShownMax) line += "… (" + std::to_string(bytes.size()) + " bytes)";
  return "\"" + line + "\"";
}

struct Request {
  RequestCode code = RequestCode::kPing;
  std::vector<std::string> keys, values;
  std::int64_t number = 0;

  std::string bytes() const {
    std::string fields;
    std::size_t key = 0, value = 0;
    for (const Field field : request_spec(code).fields) {
      switch (field) {
        case Field::kKey:
          fields += text(keys[key++]);
          break;
        case Field::kValue:
          fields += text(values[value++]);
          break;
        case Field::kKeys:
        case Field::kEntries:
          fields += bytes_of<std::uint64_t>(keys.size());
          for (std::size_t i = 0; i < keys.size(); ++i) {
            fields += text(keys[i]);
            if (field == Field::kEntries) fields += text(values[i]);
          }
          break;
        case Field::kInt64:
          fields += bytes_of(number);
          break;
        case Field::kUint32:
          fields += bytes_of(static_cast<std::uint32_t>(number));
          break;
        case Field::kNone:
          break;
      }
    }
    return frame(code, fields);
  }

  std::string readable() const {
    std::string line(request_spec(code).name);
    for (const auto& key : keys) line += " " + shown(key);
    if (!values.empty()) line += " =";
    for (const auto& value : values) line += " " + shown(value);
    for (const Field field : request_spec(code).fields) {
      if (field == Field::kInt64) line += " " + std::to_string(number);
    }
    return line;
  }

  bool may_wait() const { return code == RequestCode::kWait || code == RequestCode::kBarrier; }
};

// A server's answer to one request, up to the pong.
struct Answer {
  enum class End { kPong, kWaits, kClosed, kNothingMore, kNoPong };

  std::string bytes;
  End end = End::kPong;

  bool operator==(const Answer&) const = default;

  std::string readable() const {
    switch (end) {
      case End::kPong:
        return shown(bytes);
      case End::kWaits:
        return "waits";
      case End::kClosed:
        return shown(bytes) + ", then closed the connection";
      case End::kNothingMore:
        return shown(bytes) + ", then nothing";
      case End::kNoPong:
        return shown(bytes) + ", then something else than the answer to the ping";
    }
    return "";
  }
};

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class Connection {
 public:
  explicit Connection(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    const sockaddr_in address = loopback(port);
    EXPECT_EQ(
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const timeval bound{.tv_sec = kAnswerBoundS, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
  }

  // Ignores errors: a server that rejects a request may close the connection early.
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Sends the request and a ping.
  void ask(const Request& request) {
    ping_ = bytes_of<std::uint32_t>(++pings_ << 8 | 0xAA);
    send(request.bytes() + frame(RequestCode::kPing, ping_));
  }

  // Reads up to the pong.  No answer to a wait starts with the pong's first byte.
  Answer answer_to(const Request& request) {
    Answer answer;
    if (request.may_wait()) {
      if (!receive(answer.bytes, 1)) return ended(answer);
      if (answer.bytes[0] == ping_[0]) answer.end = Answer::End::kWaits;
    } else if (!receive_answer(request, answer.bytes)) {
      return ended(answer);
    }
    std::string pong;
    if (answer.end == Answer::End::kWaits) std::swap(pong, answer.bytes);
    if (!receive(pong, ping_.size() - pong.size())) return ended(answer);
    if (pong != ping_) answer = {answer.bytes + pong, Answer::End::kNoPong};
    return answer;
  }

  // Whether bytes, or the end of the connection, can be read within that time.
  bool is_readable(int within_ms) const {
    pollfd look{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    int ready = 0;
    do {
      ready = ::poll(&look, 1, within_ms);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
  }

  // One byte, or how the connection ended.
  Answer receive_byte() {
    Answer answer;
    return receive(answer.bytes, 1) ? answer : ended(answer);
  }

  // Returns when the server has closed the connection, with the bytes until then.
  Answer leave() {
    ::shutdown(socket_.get(), SHUT_WR);
    Answer answer;
    while (answer.bytes.size() < kShownMax && receive(answer.bytes, 1)) {
    }
    return ended(answer);
  }

 private:
  // False if the connection ends or the time runs out before `size` bytes.
  bool receive(std::string& to, std::size_t size) {
    size += to.size();
    while (to.size() < size) {
      char buffer[64 * kKiB];
      const auto got = ::recv(socket_.get(), buffer, std::min(sizeof(buffer), size - to.size()), 0);
      if (got < 0 && errno == EINTR) continue;
      closed_ = got == 0 || (got < 0 && errno == ECONNRESET);
      if (got <= 0) return false;
      to.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }

  bool receive_count(std::string& to, std::uint64_t& count) {
    if (!receive(to, sizeof(count))) return false;
    to.copy(reinterpret_cast<char*>(&count), sizeof(count), to.size() - sizeof(count));
    return true;
  }

  bool receive_text(std::string& to) {
    std::uint64_t size = 0;
    // No valid answer is longer than the bound.
    return receive_count(to, size) && receive(to, std::min<std::uint64_t>(size, 16 * kMiB));
  }

  bool receive_answer(const Request& request, std::string& to) {
    std::uint64_t count = 0;
    switch (request.code) {
      case RequestCode::kGet:
      case RequestCode::kCompareSet:
        return receive_text(to);
      case RequestCode::kAdd:
      case RequestCode::kDeleteKey:
      case RequestCode::kGetNumKeys:
      case RequestCode::kQueueLen:
        return receive(to, sizeof(count));
      case RequestCode::kCheck:
      case RequestCode::kCancelWait:
        return receive(to, 1);
      case RequestCode::kPing:
        return receive(to, sizeof(std::uint32_t));
      case RequestCode::kMultiGet:
        return std::all_of(request.keys.begin(), request.keys.end(),
                           [&](const auto&) { return receive_text(to); });
      case RequestCode::kQueuePop:
        return receive_count(to, count) && (count == 0 || receive_text(to));
      case RequestCode::kListKeys: {
        // Keys come in the order of a hash table, so they are sorted.
        if (!receive_count(to, count)) return false;
        std::multiset<std::string> keys;
        for (; count > 0; --count) {
          std::string key;
          if (!receive_text(key)) return false;
          keys.insert(key);
        }
        for (const auto& key : keys) to += key;
        return true;
      }
      default:
        return true;  // Requests that only write have no answer.
    }
  }

  Answer ended(Answer& answer) const {
    return {answer.bytes, closed_ ? Answer::End::kClosed : Answer::End::kNothingMore};
  }

  UniqueFd socket_;
  bool closed_ = false;
  std::uint32_t pings_ = 0;
  std::string ping_;  // The last one.
};

}  // namespace distrun::testing
