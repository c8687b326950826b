#include "disk/range_read.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace headrace {
namespace {

// The system reads 2 GB at most, and io_uring counts bytes with 32 bits.
constexpr std::size_t kMostBytesAtOnce = std::size_t{1} << 30;

}  // namespace

RangeRead::RangeRead(const ReadCall& call, const ReadRange& range, char* bounce)
    : call_(&call), range_(&range), memory_(bounce) {
  const WantedRow* const wanted = call.plan.wanted.data();
  const bool one_row = wanted[range.first].row == wanted[range.last - 1].row;
  if (one_row && !call.file.is_direct()) memory_ = call.out + wanted[range.first].place * call.file.layout().row_bytes;
}

std::size_t RangeRead::bytes() const { return std::min(range_->bytes - from_, kMostBytesAtOnce); }

bool RangeRead::advance(std::int64_t outcome) {
  if (outcome == -EINTR || outcome == -EAGAIN) return false;
  if (outcome < 0) {
    const std::uint64_t last = call_->plan.wanted[range_->last - 1].row;
    call_->file.throw_error(first_missing_row(), last, static_cast<int>(-outcome));
  }
  const std::size_t reached = from_ + static_cast<std::size_t>(outcome);
  counts_.reads += 1;
  counts_.bytes += static_cast<std::uint64_t>(outcome);
  if (reached <= done_) call_->file.throw_truncated(first_missing_row());
  done_ = reached;
  from_ = done_ / call_->file.alignment() * call_->file.alignment();
  if (done_ < range_->needed) return false;
  copy_rows();
  return true;
}

std::uint64_t RangeRead::first_missing_row() const {
  const RowLayout& layout = call_->file.layout();
  const WantedRow* const wanted = call_->plan.wanted.data();
  const WantedRow* const missing = std::find_if(
      wanted + range_->first, wanted + range_->last - 1,
      [&](const WantedRow& one) { return layout.offset(one.row) + layout.row_bytes > range_->offset + done_; });
  return missing->row;
}

void RangeRead::copy_rows() const {
  const RowLayout& layout = call_->file.layout();
  for (std::size_t i = range_->first; i < range_->last; ++i) {
    const WantedRow& one = call_->plan.wanted[i];
    char* const target = call_->out + one.place * layout.row_bytes;
    const char* const row = memory_ + (layout.offset(one.row) - range_->offset);
    if (row != target) std::memcpy(target, row, layout.row_bytes);
  }
}

}  // namespace headrace
