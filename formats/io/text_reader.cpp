#include "formats/io/text_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr std::size_t kBlockBytes = 1 << 18;      // parsed in about a millisecond
constexpr std::size_t kBytesPerThread = 1 << 20;  // makes the start of a thread negligible
constexpr std::size_t kMostThreads = 32;          // limits the size of the buffer

}  // namespace

void fail_at(std::string_view name, std::int64_t line, std::string_view message) {
  throw Error(fmt::format("{}:{}: {}", name, line, message));
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string shown;
  for (const char c : text.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7f)
      shown += c;
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text.size() > kLongest ? shown + "..." : shown;
}

std::int64_t TextBlock::line_of(const char* place) const {
  return first_line + std::ranges::count(text.substr(0, place - text.data()), '\n');
}

// --- fields --------------------------------------------------------------------------------------

std::string_view Fields::rest_of_word() const {
  const char* stop = std::find_if(at_, end_, is_blank);
  return {at_, static_cast<std::size_t>(stop - at_)};
}

void Fields::fail(std::string_view message) const { fail_at(block_->name, line(), message); }

void Fields::fail_expected(std::string_view what) const {
  if (at_ == end_) fail(fmt::format("expected the {}, but the line ends", what));
  fail(fmt::format("expected the {}, not '{}'", what, printable(rest_of_word())));
}

std::string_view Fields::word(std::string_view what) {
  if (done()) fail_expected(what);
  const std::string_view found = rest_of_word();
  at_ += found.size();
  return found;
}

std::int64_t Fields::integer(std::string_view what, std::int64_t least, std::int64_t most) {
  skip_blanks();
  const char* stop = at_;
  const bool negative = stop != end_ && *stop == '-';
  if (stop != end_ && (*stop == '-' || *stop == '+')) ++stop;
  const char* digits = stop;
  std::uint64_t value = 0;  // of a long number, the rest of a division by 2^64
  for (; stop != end_ && static_cast<unsigned char>(*stop - '0') < 10; ++stop)
    value = value * 10 + static_cast<unsigned char>(*stop - '0');
  if (stop == digits || (stop != end_ && !is_blank(*stop))) fail_expected(what);
  // 18 digits always fit; a longer number (or one padded with zeros to more) is out of any range.
  const bool too_long = stop - digits > 18;
  // Negated without a sign: -2^63 has no counterpart among the signed numbers.
  const auto number = static_cast<std::int64_t>(negative ? 0 - value : value);
  if (too_long || number < least || number > most)
    fail(fmt::format("the {} is {}, outside [{}, {}]", what, printable(rest_of_word()), least,
                     most));
  at_ = stop;
  return number;
}

float Fields::real(std::string_view what) {
  skip_blanks();
  const char* begin = at_ != end_ && *at_ == '+' ? at_ + 1 : at_;
  if (begin != at_ && begin != end_ && *begin == '-') fail_expected(what);
  float value = 0;
  const auto [stop, error] = std::from_chars(begin, end_, value);
  if (error == std::errc::invalid_argument || (stop != end_ && !is_blank(*stop)))
    fail_expected(what);
  if (error == std::errc::result_out_of_range || !std::isfinite(value))
    value = extreme_real(what, {begin, static_cast<std::size_t>(stop - begin)});
  at_ = stop;
  return value;
}

/// A number that std::from_chars refuses: NaN or infinity as words, too large, or too small.
float Fields::extreme_real(std::string_view what, std::string_view digits) {
  long double wide = 0;
  const auto [stop, error] = std::from_chars(digits.begin(), digits.end(), wide);
  if (error == std::errc() && std::isfinite(wide) && std::abs(wide) < 1)
    return static_cast<float>(wide);
  if (error == std::errc() && !std::isfinite(wide))
    fail(fmt::format("the {} is '{}'; expected a finite number", what, printable(rest_of_word())));
  fail(fmt::format("the {} is {}, which FP32 cannot hold (largest: {})", what,
                   printable(rest_of_word()), std::numeric_limits<float>::max()));
}

void Fields::finish() {
  if (!done())
    fail(fmt::format("expected the end of the line, not '{}'", printable(rest_of_word())));
}

std::int64_t line_of_entry(const TextBlock& block, char comment, std::int64_t index) {
  std::int64_t line = block.first_line;
  std::int64_t seen = 0;
  for_each_line(block, comment, [&](Fields& fields) {
    if (seen++ == index) line = fields.line();
  });
  return line;
}

// --- the reader ----------------------------------------------------------------------------------

TextReader::TextReader(std::unique_ptr<ByteSource> bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {
  capacity_ = std::clamp<std::size_t>(static_cast<std::size_t>(num_threads()), 1, kMostThreads) *
              kBytesPerThread;
  buffer_ = std::make_unique_for_overwrite<char[]>(capacity_);
}

/// Moves the unread text to the front, of a larger buffer when it fills this one, and reads more.
/// A last line without a newline gets one.
bool TextReader::refill() {
  if (at_end_) return false;
  const std::size_t kept = end_ - begin_;
  if (kept + 1 >= capacity_) {  // of one line
    check_length(kept + 1);
    const std::size_t capacity = std::min(2 * capacity_, longest_line_ + kBlockBytes);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    std::memcpy(larger.get(), buffer_.get() + begin_, kept);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, kept);
  }
  begin_ = 0;
  const std::size_t room = capacity_ - kept - 1;  // one for a missing last newline
  const std::size_t got = bytes_->read({buffer_.get() + kept, room});
  end_ = kept + got;
  at_end_ = got < room;
  if (at_end_ && end_ > 0 && buffer_[end_ - 1] != '\n') buffer_[end_++] = '\n';
  return end_ > kept;
}

void TextReader::check_length(std::size_t size) const {
  if (size > longest_line_)
    fail_at(name_, line_ + 1, fmt::format("the line is longer than {} bytes", longest_line_));
}

/// The next `size` bytes of unread text, which end in a newline.
TextBlock TextReader::cut(std::size_t size) {
  const std::string_view text(buffer_.get() + begin_, size);
  const TextBlock block{text, name_, line_ + 1, std::count(text.begin(), text.end(), '\n')};
  begin_ += size;
  line_ += block.num_lines;
  return block;
}

std::optional<TextBlock> TextReader::next_line() {
  std::size_t searched = 0;
  while (true) {
    const char* text = buffer_.get() + begin_;
    const auto* newline =
        static_cast<const char*>(std::memchr(text + searched, '\n', end_ - begin_ - searched));
    if (newline != nullptr) {
      const std::size_t size = static_cast<std::size_t>(newline - text) + 1;
      check_length(size);
      return cut(size);
    }
    searched = end_ - begin_;
    if (!refill()) return std::nullopt;
  }
}

std::optional<TextBlock> TextReader::next_line(char mark) {
  while (auto block = next_line()) {
    bool useful = false;
    for_each_line(*block, mark, [&](Fields&) { useful = true; });
    if (useful) return block;
  }
  return std::nullopt;
}

std::vector<TextBlock> TextReader::next_blocks() {
  // The buffer may still hold lines after a header; a refill gives every thread work.
  std::size_t usable = 0;
  do {
    const bool more = refill();
    const char* text = buffer_.get() + begin_;
    const auto* last = static_cast<const char*>(memrchr(text, '\n', end_ - begin_));
    usable = last == nullptr ? 0 : static_cast<std::size_t>(last - text) + 1;
    if (!more) break;
  } while (usable == 0);

  std::vector<TextBlock> blocks;
  while (usable > 0) {
    std::size_t size = usable;
    if (size > kBlockBytes) {
      const char* text = buffer_.get() + begin_;
      const auto* newline =
          static_cast<const char*>(std::memchr(text + kBlockBytes, '\n', usable - kBlockBytes));
      size = static_cast<std::size_t>(newline - text) + 1;
      // Only the last line of a block can be longer than kBlockBytes.
      const auto* before = static_cast<const char*>(memrchr(text, '\n', size - 1));
      const std::size_t start = before == nullptr ? 0 : static_cast<std::size_t>(before - text) + 1;
      if (size - start > longest_line_) {
        // The lines before it come first: they may hold an earlier error.
        if (start > 0) blocks.push_back(cut(start));
        if (blocks.empty()) check_length(size);
        return blocks;
      }
    }
    blocks.push_back(cut(size));
    usable -= size;
  }
  return blocks;
}

}  // namespace tessera
