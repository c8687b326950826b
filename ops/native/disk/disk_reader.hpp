// Copy the rows that a list of ids names from a file that may be larger than memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "disk/range_read.hpp"
#include "disk/ring_pool.hpp"
#include "disk/row_file.hpp"

namespace headrace {

enum class DiskEngine {
  kThreads,  // each waits for its read (pread)
  kIoUring,  // the kernel is given all of them, and says which are done
};

// Rows of an output that lie one behind the other.
struct DiskTarget {
  char* data;
  std::size_t num_rows;
  const std::int64_t* places;  // where each row goes, distinct, or null: one after the other
};

// May be read by several threads at once, and by forked processes.
class DiskReader {
 public:
  struct Options {
    DiskEngine engine;
    unsigned queue_depth;   // reads at a time, for each call
    std::size_t gap_bytes;  // rows at most so far from each other are read together
    bool direct;
  };

  static constexpr unsigned kMostDepth = 1024;

  DiskReader(int descriptor, std::string name, RowLayout layout, const Options& options);

  // out[places[i]] = row ids[i]. Throws InputError before anything is written when an id or a place has no row, and
  // when a row cannot be read; no read is going on any more then.
  template <class Id>
  ReadCounts read(const Id* ids, std::size_t num_ids, const DiskTarget& out);

  bool is_direct() const { return file_.is_direct(); }

  // Of reads that begin later.
  void set_gap_bytes(std::size_t gap_bytes) { gap_bytes_ = gap_bytes; }

 private:
  RowFile file_;
  Options options_;
  std::atomic<std::size_t> gap_bytes_;
  RingPool rings_;
};

}  // namespace headrace
