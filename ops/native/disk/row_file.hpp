// A file of rows that is open for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace headrace {

// Where rows are in a file: one behind the other, from `start` on.
struct RowLayout {
  std::uint64_t start;
  std::uint64_t num_rows;
  std::size_t row_bytes;

  std::uint64_t offset(std::uint64_t row) const { return start + row * row_bytes; }
};

// Holds a descriptor of its own, and what the file was like when it was opened.
class RowFile {
 public:
  // Reads past the page cache are of whole blocks, into memory that begins like one: of 4 KiB, which suits every disk.
  static constexpr std::size_t kBlockBytes = 4096;

  // Opens the file of `descriptor` anew: flags, offset and advice of a duplicate would be those of its owner as well.
  // `name` is for errors. With `direct` it reads past the page cache, if the file system lets it.
  RowFile(int descriptor, std::string name, RowLayout layout, bool direct);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  int descriptor() const { return descriptor_; }
  // Whether a read waits for what is not in memory yet; if not, io_uring gives it up.
  bool waits() const { return waits_; }
  const RowLayout& layout() const { return layout_; }
  bool is_direct() const { return is_direct_; }
  // What offsets, sizes and memory of reads are multiples of.
  std::size_t alignment() const { return is_direct_ ? kBlockBytes : 1; }

  // Throws InputError if somebody has written to the file since: rows may be of before and after.
  void check_unchanged() const;

  // Of the rows from `first` to `last`, which one read was for; `error` is an errno.
  [[noreturn]] void throw_error(std::uint64_t first, std::uint64_t last, int error) const;
  [[noreturn]] void throw_truncated(std::uint64_t row) const;

 private:
  struct Version {
    std::int64_t bytes;
    std::int64_t seconds;
    std::int64_t nanoseconds;
    bool operator!=(const Version& other) const {
      return bytes != other.bytes || seconds != other.seconds || nanoseconds != other.nanoseconds;
    }
  };

  Version version() const;
  bool open_anew(int descriptor);
  bool read_directly();

  int descriptor_;
  bool waits_ = true;
  std::string name_;
  RowLayout layout_;
  Version opened_{};
  bool is_direct_ = false;
};

}  // namespace headrace
