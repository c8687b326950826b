#include "random/fisher_yates.hpp"

#include <algorithm>
#include <utility>

#include "random/stream_words.hpp"

namespace headrace {
namespace {

// The words of a stream one by one, as WordStream gives them, made many at a time.
class FastWords {
 public:
  explicit FastWords(std::uint64_t key) : keys_(key) {}

  // `likely`: words that will still be wanted, more or less.
  std::uint32_t next(std::size_t likely) {
    if (next_ == filled_) fill(likely);
    return words_[next_++];
  }

 private:
  static constexpr std::size_t kMost = 1024;

  void fill(std::size_t likely) {
    filled_ = std::min(kMost, (likely + 3) / 4 * 4);
    stream_words(keys_, 0, block_, filled_, words_);
    block_ += static_cast<std::uint32_t>(filled_ / 4);
    next_ = 0;
  }

  StreamKeys keys_;
  std::uint32_t block_ = 0;
  std::size_t next_ = 0;
  std::size_t filled_ = 0;
  std::uint32_t words_[kMost + kWordsSlack];
};

// bounded() of a bound of 2 to 2^32 - 1.
std::uint32_t bounded(FastWords& words, std::uint32_t bound) {
  std::uint64_t product = static_cast<std::uint64_t>(words.next(bound)) * bound;
  if (low_word(product) < bound) {
    const std::uint32_t threshold = (0U - bound) % bound;
    while (low_word(product) < threshold) product = static_cast<std::uint64_t>(words.next(bound)) * bound;
  }
  return high_word(product);
}

}  // namespace

void fisher_yates(std::size_t count, std::uint64_t key, std::int64_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::int64_t>(i);
  FastWords words(key);
  for (std::size_t i = count; i-- > 1;) std::swap(out[i], out[bounded(words, static_cast<std::uint32_t>(i + 1))]);
}

}  // namespace headrace
