// The reading of one range: what to ask the system for next, whichever way it is asked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "disk/read_plan.hpp"
#include "disk/row_file.hpp"

namespace headrace {

// What a call does for all its ranges.
struct ReadCall {
  const RowFile& file;
  const ReadPlan& plan;
  char* out;  // rows packed one behind the other
};

struct ReadCounts {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;

  void add(const ReadCounts& other) {
    reads += other.reads;
    bytes += other.bytes;
  }
};

class RangeRead {
 public:
  // `bounce` has room for the largest range, aligned as the file wants it. A range of one row needs none where nothing
  // has to be aligned: it is read to where it goes.
  RangeRead(const ReadCall& call, const ReadRange& range, char* bounce);

  // What to read next. A read may come back with less than it was asked for: the next goes on from there.
  char* memory() const { return memory_ + from_; }
  std::uint64_t offset() const { return range_->offset + from_; }
  std::size_t bytes() const;

  // Take the outcome of that: bytes that came, or a negative errno. Returns whether all rows are there, and in their
  // places. Throws InputError that names the first row that cannot be read.
  bool advance(std::int64_t outcome);

  const ReadCounts& counts() const { return counts_; }

 private:
  std::uint64_t first_missing_row() const;
  void copy_rows() const;

  const ReadCall* call_;
  const ReadRange* range_;
  char* memory_;
  std::size_t done_ = 0;  // bytes that have come
  std::size_t from_ = 0;  // where the next read begins: there, or at the block before
  ReadCounts counts_;
};

}  // namespace headrace
