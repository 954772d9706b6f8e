// A stream of distrun's own messages that also go into a recording.
//
//     RecordedStream err(std::cerr, Printed::kStderr, recording);   // nullptr: none
//     err.stream() << "distrun: …" << std::endl;
#pragma once

#include <ostream>
#include <streambuf>

#include "recording/recording_writer.h"

namespace distrun {

class RecordedStream {
 public:
  // Both must outlive it.
  RecordedStream(std::ostream& to, Printed which, RecordingWriter* recording)
      : buffer_(to, which, recording), stream_(&buffer_) {}

  std::ostream& stream() { return stream_; }

 private:
  class Buffer : public std::streambuf {
   public:
    Buffer(std::ostream& to, Printed which, RecordingWriter* recording)
        : to_(to), which_(which), recording_(recording) {}

   private:
    int_type overflow(int_type one) override {
      if (one == traits_type::eof()) return traits_type::not_eof(one);
      const char letter = traits_type::to_char_type(one);
      return xsputn(&letter, 1) == 1 ? one : traits_type::eof();
    }
    // The recording gets the bytes even if the stream fails.
    std::streamsize xsputn(const char* bytes, std::streamsize size) override {
      if (recording_ != nullptr) {
        recording_->printed(which_, {bytes, static_cast<std::size_t>(size)});
      }
      return to_.write(bytes, size) ? size : 0;
    }
    int sync() override { return to_.flush() ? 0 : -1; }

    std::ostream& to_;
    const Printed which_;
    RecordingWriter* const recording_;
  };

  Buffer buffer_;
  std::ostream stream_;
};

}  // namespace distrun
