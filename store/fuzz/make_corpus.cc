// Writes the seeds of the corpus: `make_store_corpus store/fuzz/corpus`.
//
// There is a seed for each request of the table in request.h, and for each kind of malformed input
// below. Existing files are overwritten.
#include <cstdio>
#include <fstream>
#include <string>

#include "store/test/frames.h"

namespace distrun {
namespace {

using testing::bytes_of;
using testing::frame;
using testing::greeting;
using testing::text;

std::string list_of(const std::string& items, std::uint64_t count) {
  return bytes_of(count) + items;
}

std::string example(const RequestSpec& spec) {
  std::string fields;
  for (const Field field : spec.fields) {
    switch (field) {
      case Field::kKey:
        fields += text("k");
        break;
      case Field::kValue:
        fields += text("1");
        break;
      case Field::kKeys:
        fields += list_of(text("k") + text("l"), 2);
        break;
      case Field::kEntries:
        fields += list_of(text("k") + text("1") + text("l") + text(""), 2);
        break;
      case Field::kInt64:
        fields += bytes_of<std::int64_t>(2);
        break;
      case Field::kUint32:
        fields += bytes_of<std::uint32_t>(1);
        break;
      case Field::kNone:
        break;
    }
  }
  return frame(spec.code, fields);
}

// Requests after this ping come from peer `peer`.
std::string speaker(std::uint32_t peer) { return frame(RequestCode::kPing, bytes_of(peer)); }

class Corpus {
 public:
  explicit Corpus(std::string folder) : folder_(std::move(folder)) {}

  // The leading zero makes the fuzz target cut the input into single bytes.
  void add(const std::string& name, const std::string& bytes) {
    std::ofstream file(folder_ + "/" + name, std::ios::binary);
    file << '\0' << bytes;
    if (!file.flush())
      std::fprintf(stderr, "%s/%s cannot be written\n", folder_.c_str(), name.c_str());
    whole_ = whole_ && file;
  }

  bool whole() const { return whole_; }

 private:
  std::string folder_;
  bool whole_ = true;
};

bool write(const std::string& folder) {
  Corpus corpus(folder);
  const std::string huge = bytes_of(~std::uint64_t{0});
  corpus.add("empty", "");
  corpus.add("greeting", greeting());
  corpus.add("greeting_truncated", greeting().substr(0, 3));
  corpus.add("greeting_twice", greeting() + greeting());
  corpus.add("greeting_wrong", frame(RequestCode::kValidate, bytes_of<std::uint32_t>(7)));
  corpus.add("greeting_missing", frame(RequestCode::kGetNumKeys));
  corpus.add("unknown_code", greeting() + "\x7f");
  corpus.add("web", "GET / HTTP/1.1\r\n\r\n");
  corpus.add("key_huge", greeting() + frame(RequestCode::kGet, huge));
  corpus.add("value_huge", greeting() + frame(RequestCode::kSet, text("k") + huge));
  corpus.add("list_huge", greeting() + frame(RequestCode::kMultiSet, huge));
  corpus.add("key_too_long", greeting() + frame(RequestCode::kGet, text(std::string(17, 'k'))));
  std::string five;
  for (int i = 0; i < 5; ++i) five += text("");
  corpus.add("list_too_long", greeting() + frame(RequestCode::kCheck, list_of(five, 5)));
  std::string entries;
  for (int i = 0; i < 4; ++i) entries += text("k") + text(std::string(60, 'v'));
  corpus.add("request_too_long", greeting() + frame(RequestCode::kMultiSet, list_of(entries, 4)));
  for (const RequestSpec& spec : kRequests) {
    if (spec.code == RequestCode::kValidate) continue;
    const std::string name(spec.name), bytes = example(spec);
    const std::string once = greeting() + bytes;
    corpus.add("request_" + name, once + bytes);
    if (bytes.size() > 1) corpus.add("truncated_" + name, once.substr(0, once.size() - 1));
  }
  const std::string wait = frame(RequestCode::kWait, list_of(text("k") + text("q"), 2));
  const std::string push = frame(RequestCode::kQueuePush, text("q") + text("v"));
  const std::string set = frame(RequestCode::kSet, text("k") + text("v"));
  corpus.add("waits_woken", greeting() + wait + speaker(1) + wait + speaker(2) + set + push + push);
  corpus.add("wait_canceled", greeting() + wait + frame(RequestCode::kCancelWait) + set + push);
  corpus.add("waiting_peer_leaves", greeting() + wait + speaker(0x80000002) + set + push);
  const std::string barrier = frame(RequestCode::kBarrier, text("b") + bytes_of<std::int64_t>(3));
  corpus.add("barrier_of_three",
             greeting() + barrier + speaker(1) + barrier + speaker(2) + barrier);
  const std::string pop = frame(RequestCode::kQueuePop, text("q"));
  corpus.add("queue", greeting() + push + push + pop + frame(RequestCode::kQueueLen, text("q")));
  corpus.add("queue_emptied", greeting() + push + pop + pop + wait);
  corpus.add("add_to_no_number",
             greeting() + set + frame(RequestCode::kAdd, text("k") + bytes_of<std::int64_t>(1)));
  std::string pushes;
  for (char key = 'a'; key <= 'h'; ++key) {
    pushes +=
        frame(RequestCode::kQueuePush, text(std::string(1, key)) + text(std::string(64, 'v')));
  }
  corpus.add("store_full", greeting() + wait + pushes + set);
  const std::string most =
      frame(RequestCode::kAdd, text("n") + bytes_of<std::int64_t>(0x7FFFFFFFFFFFFFFF));
  corpus.add("add_overflows", greeting() + most + most);
  const std::string longer = frame(RequestCode::kAppend, text("k") + text(std::string(40, 'v')));
  corpus.add("append_too_long", greeting() + longer + longer + frame(RequestCode::kGet, text("k")));
  std::string keys;
  for (char key = 'a'; key <= 'z'; ++key) {
    keys += frame(RequestCode::kSet, text(std::string(16, key)) + text(""));
  }
  corpus.add("reply_too_long", greeting() + keys + frame(RequestCode::kListKeys));
  return corpus.whole();
}

}  // namespace
}  // namespace distrun

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_store_corpus FOLDER\n");
    return 2;
  }
  return distrun::write(argv[1]) ? 0 : 1;
}
