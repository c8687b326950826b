#include "disk/disk_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "core/parallel.hpp"
#include "core/pool.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMostBounceBytes = std::size_t{64} << 20;  // of a call, but for longer rows

// Memory for reads that do not go straight to where rows go, for `num_ranges` at a time.
class Bounce {
 public:
  Bounce(std::size_t most_bytes, std::size_t num_ranges)
      : stride_(round_up(most_bytes)), memory_(stride_ * num_ranges + RowFile::kBlockBytes) {}

  char* of(std::size_t number) {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(memory_.data()) % RowFile::kBlockBytes;
    return memory_.data() + (past == 0 ? 0 : RowFile::kBlockBytes - past) + number * stride_;
  }

 private:
  static std::size_t round_up(std::size_t bytes) {
    return (bytes + RowFile::kBlockBytes - 1) / RowFile::kBlockBytes * RowFile::kBlockBytes;
  }

  std::size_t stride_;
  Buffer<char> memory_;
};

std::size_t reads_at_once(const ReadPlan& plan, unsigned depth) {
  const std::size_t fitting = std::max<std::size_t>(kMostBounceBytes / std::max<std::size_t>(plan.most_bytes, 1), 1);
  return std::min({std::size_t{depth}, plan.ranges.size(), fitting});
}

ReadCounts read_by_threads(const ReadCall& call, unsigned depth) {
  const std::size_t num_threads = reads_at_once(call.plan, depth);
  Pool bounces([&] { return Bounce(call.plan.most_bytes, 1); });
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes{0};
  parallel_for(static_cast<int>(num_threads), call.plan.ranges.size(), [&](std::size_t number) {
    auto bounce = bounces.take();
    RangeRead range(call, call.plan.ranges[number], bounce->of(0));
    std::int64_t outcome = 0;
    do {
      outcome = pread(call.file.descriptor(), range.memory(), range.bytes(), static_cast<off_t>(range.offset()));
      if (outcome < 0) outcome = -errno;
    } while (!range.advance(outcome));
    reads += range.counts().reads;
    bytes += range.counts().bytes;
    bounces.give_back(std::move(bounce));
  });
  return {reads, bytes};
}

#ifdef HEADRACE_IO_URING

// A call by a ring. After an error nothing new begins, but what is going on is waited for: the kernel writes to memory
// that is not ours any more once the call is over. Ranges begin in order, so all before one that fails have begun, and
// the first of those that fail is the same every time.
class RingCall {
 public:
  RingCall(const ReadCall& call, IoUring& ring, std::size_t num_slots)
      : call_(call), ring_(ring), bounce_(call.plan.most_bytes, num_slots), slots_(num_slots) {
    for (std::size_t i = num_slots; i-- > 0;) free_.push_back(i);
  }

  ReadCounts run() {
    const std::vector<ReadRange>& ranges = call_.plan.ranges;
    while (num_going_on_ > 0 || (next_ < ranges.size() && !failure_)) {
      for (; !free_.empty() && next_ < ranges.size() && !failure_; ++next_) {
        const std::size_t slot = free_.back();
        free_.pop_back();
        slots_[slot] = {next_, RangeRead(call_, ranges[next_], bounce_.of(slot))};
        queue(slot);
        ++num_going_on_;
      }
      const int error = ring_.submit_and_wait();
      take_all();
      if (error != 0) give_up(error);
    }
    if (failure_) std::rethrow_exception(failure_);
    return counts_;
  }

 private:
  struct Slot {
    std::size_t number = 0;  // of the range
    std::optional<RangeRead> range;
  };

  void queue(std::size_t slot) {
    const RangeRead& range = *slots_[slot].range;
    ring_.queue_read(call_.file.descriptor(), range.memory(), range.bytes(), range.offset(), slot);
  }

  void take_all() {
    for (IoUring::Done done; ring_.take(done);) {
      Slot& slot = slots_[done.number];
      try {
        if (!slot.range->advance(done.outcome)) {
          queue(done.number);
          continue;
        }
        counts_.add(slot.range->counts());
      } catch (...) {
        if (!failure_ || slot.number < failed_) {
          failed_ = slot.number;
          failure_ = std::current_exception();
        }
      }
      free_.push_back(done.number);
      --num_going_on_;
    }
  }

  // The kernel takes nothing any more; what it has taken it finishes.
  void give_up(int error) {
    failure_ = std::make_exception_ptr(
        InputError("io_uring failed: " + std::generic_category().message(error) + "; read with engine=\"threads\""));
    failed_ = 0;
    num_going_on_ -= ring_.withdraw_queued();
    while (num_going_on_ > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      for (IoUring::Done done; ring_.take(done);) --num_going_on_;
    }
  }

  const ReadCall& call_;
  IoUring& ring_;
  Bounce bounce_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_;
  std::size_t next_ = 0;
  std::size_t num_going_on_ = 0;
  std::size_t failed_ = 0;
  std::exception_ptr failure_;
  ReadCounts counts_;
};

ReadCounts read_by_ring(const ReadCall& call, RingPool& rings, unsigned depth) {
  std::unique_ptr<IoUring> ring;
  try {
    ring = rings.take(depth);
  } catch (const std::system_error&) {
    return read_by_threads(call, depth);  // out of descriptors or of memory that may be locked
  }
  const ReadCounts counts = RingCall(call, *ring, reads_at_once(call.plan, depth)).run();
  rings.give_back(std::move(ring));
  return counts;
}

#endif

ReadCounts read_ranges(const ReadCall& call, [[maybe_unused]] RingPool& rings, const DiskReader::Options& options) {
#ifdef HEADRACE_IO_URING
  if (options.engine == DiskEngine::kIoUring && call.file.waits())
    return read_by_ring(call, rings, options.queue_depth);
#endif
  return read_by_threads(call, options.queue_depth);
}

template <class T>
void check(const char* name, const T* values, std::size_t count, std::size_t bound, const char* advice) {
  const std::size_t bad = first_out_of_range(values, 0, count, bound);
  if (bad == count) return;
  throw InputError(std::string("read_rows: ") + name + "[" + std::to_string(bad) +
                   "] = " + std::to_string(values[bad]) + " has no row: expected from 0 to below " +
                   std::to_string(bound) + advice);
}

}  // namespace

DiskReader::DiskReader(int descriptor, std::string name, RowLayout layout, const Options& options)
    : file_(descriptor, std::move(name), layout, options.direct), options_(options), gap_bytes_(options.gap_bytes) {
  if (options.queue_depth < 1 || options.queue_depth > kMostDepth) {
    throw InputError("expected a queue_depth of at least 1 and at most " + std::to_string(kMostDepth) + ", got " +
                     std::to_string(options.queue_depth));
  }
  if (options.engine == DiskEngine::kIoUring && !has_io_uring()) {
    throw InputError(
        "this process cannot use io_uring (it takes Linux 5.6, and containers may forbid it); leave "
        "engine out, or pass engine=\"threads\"");
  }
}

template <class Id>
ReadCounts DiskReader::read(const Id* ids, std::size_t num_ids, const DiskTarget& out) {
  const RowLayout& layout = file_.layout();
  check("ids", ids, num_ids, layout.num_rows, "; the feature may be shorter than the graph");
  if (out.places != nullptr) {
    check("places", out.places, num_ids, out.num_rows, "");
  } else if (num_ids > out.num_rows) {
    throw InputError("read_rows: expected an output of " + std::to_string(num_ids) + " rows, got " +
                     std::to_string(out.num_rows));
  }
  if (layout.row_bytes == 0 || num_ids == 0) return {};
  const ReadPlan plan = plan_reads(layout, file_.alignment(), gap_bytes_, ids, num_ids, out.places);
  const ReadCounts counts = read_ranges({file_, plan, out.data}, rings_, options_);
  file_.check_unchanged();
  return counts;
}

template ReadCounts DiskReader::read(const std::int32_t*, std::size_t, const DiskTarget&);
template ReadCounts DiskReader::read(const std::int64_t*, std::size_t, const DiskTarget&);

}  // namespace headrace
