#include "disk/io_uring.hpp"

#ifdef HEADRACE_IO_URING

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace headrace {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the queues that are shared with the kernel have plain words");

int set_up(unsigned num_entries, io_uring_params* params) {
  return static_cast<int>(syscall(__NR_io_uring_setup, num_entries, params));
}

int enter(int ring, unsigned num_submitted, unsigned num_awaited) {
  return static_cast<int>(
      syscall(__NR_io_uring_enter, ring, num_submitted, num_awaited, IORING_ENTER_GETEVENTS, nullptr, 0));
}

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace

void IoUring::Mapped::map(int ring, std::size_t size, std::uint64_t what) {
  void* const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, static_cast<off_t>(what));
  if (mapped == MAP_FAILED) throw_errno("io_uring");
  memory = mapped;
  bytes = size;
}

IoUring::Mapped::~Mapped() {
  if (memory != nullptr) munmap(memory, bytes);
}

IoUring::Descriptor::~Descriptor() {
  if (number >= 0) close(number);
}

IoUring::IoUring(unsigned num_entries) : process_(getpid()) {
  io_uring_params params{};
  ring_.number = set_up(num_entries, &params);
  if (ring_.number < 0) throw_errno("io_uring");
  const io_sqring_offsets& in = params.sq_off;
  const io_cqring_offsets& out = params.cq_off;
  submissions_.map(ring_.number, in.array + params.sq_entries * sizeof(std::uint32_t), IORING_OFF_SQ_RING);
  entries_.map(ring_.number, params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  completions_.map(ring_.number, out.cqes + params.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING);
  submission_head_ = submissions_.at<std::atomic<std::uint32_t>>(in.head);
  submission_tail_ = submissions_.at<std::atomic<std::uint32_t>>(in.tail);
  submission_mask_ = *submissions_.at<std::uint32_t>(in.ring_mask);
  completion_head_ = completions_.at<std::atomic<std::uint32_t>>(out.head);
  completion_tail_ = completions_.at<std::atomic<std::uint32_t>>(out.tail);
  completion_mask_ = *completions_.at<std::uint32_t>(out.ring_mask);
  completions_at_ = out.cqes;
  // Place i of the queue is entry i, always.
  std::uint32_t* const places = submissions_.at<std::uint32_t>(in.array);
  for (std::uint32_t i = 0; i < params.sq_entries; ++i) places[i] = i;
}

IoUring::~IoUring() = default;

bool IoUring::is_of_this_process() const { return process_ == getpid(); }

void IoUring::queue_read(int descriptor, void* memory, std::size_t bytes, std::uint64_t offset, std::uint64_t number) {
  const std::uint32_t tail = submission_tail_->load(std::memory_order_relaxed);  // nobody else writes it
  io_uring_sqe& entry = entries_.at<io_uring_sqe>(0)[tail & submission_mask_];
  entry = {};
  entry.opcode = IORING_OP_READ;
  entry.fd = descriptor;
  entry.addr = reinterpret_cast<std::uintptr_t>(memory);
  entry.len = static_cast<std::uint32_t>(bytes);
  entry.off = offset;
  entry.user_data = number;
  submission_tail_->store(tail + 1, std::memory_order_release);  // the kernel sees the entry before it sees this
}

int IoUring::submit_and_wait() {
  const std::uint32_t tail = submission_tail_->load(std::memory_order_relaxed);
  const std::uint32_t num_queued = tail - submission_head_->load(std::memory_order_acquire);
  if (enter(ring_.number, num_queued, 1) >= 0) {
    num_refused_ = 0;
    return 0;
  }
  if (errno == EINTR) return 0;  // a signal came
  if (errno != EAGAIN && errno != EBUSY) return errno;
  // The kernel is short of something until reads are done: what it did not take stays queued. Mostly it goes on at the
  // next try; if not, tries come less and less often, so that the processor is free for others.
  constexpr unsigned kTries = 16, kMostDoublings = 10;
  if (++num_refused_ > kTries) {
    std::this_thread::sleep_for(std::chrono::microseconds(1U << std::min(num_refused_ - kTries, kMostDoublings)));
  }
  return 0;
}

unsigned IoUring::withdraw_queued() {
  const std::uint32_t head = submission_head_->load(std::memory_order_acquire);
  const std::uint32_t tail = submission_tail_->exchange(head, std::memory_order_release);
  return tail - head;
}

bool IoUring::take(Done& done) {
  const std::uint32_t head = completion_head_->load(std::memory_order_relaxed);
  if (head == completion_tail_->load(std::memory_order_acquire)) return false;
  const io_uring_cqe& entry = completions_.at<io_uring_cqe>(completions_at_)[head & completion_mask_];
  done = {entry.user_data, entry.res};
  completion_head_->store(head + 1, std::memory_order_release);  // it may be written again from here on
  return true;
}

bool IoUring::can_read() const {
  constexpr unsigned kNumOps = IORING_OP_READ + 1;
  std::vector<std::uint64_t> memory((sizeof(io_uring_probe) + kNumOps * sizeof(io_uring_probe_op)) / 8 + 1);
  auto* const probe = reinterpret_cast<io_uring_probe*>(memory.data());
  if (syscall(__NR_io_uring_register, ring_.number, IORING_REGISTER_PROBE, probe, kNumOps) != 0) return false;
  return probe->ops_len > IORING_OP_READ && (probe->ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED) != 0;
}

bool has_io_uring() {
  // Not a local of one initialisation, which a forked process would wait for: threads that look at once find the same.
  enum : int { kUnknown, kNo, kYes };
  static std::atomic<int> known{kUnknown};
  if (const int has = known.load(std::memory_order_relaxed); has != kUnknown) return has == kYes;
  bool has = false;
  try {
    has = IoUring(1).can_read();
  } catch (const std::system_error&) {
    has = false;
  }
  known.store(has ? kYes : kNo, std::memory_order_relaxed);
  return has;
}

}  // namespace headrace

#else

namespace headrace {

bool has_io_uring() { return false; }

}  // namespace headrace

#endif
