// Reads that the Linux kernel does while we go on (io_uring, since Linux 5.6), by its system calls alone: liburing is
// on few machines. Where the compiler has no header of it, there is none.
#pragma once

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#define HEADRACE_IO_URING
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headrace {

// Whether this process may use it: kernels may be older, containers often forbid it.
bool has_io_uring();

#ifdef HEADRACE_IO_URING

// A queue of reads to do, and one of those that are done, both shared with the kernel. For one thread at a time, and
// only in the process that made it: one that was forked off shares the queues.
class IoUring {
 public:
  // Throws std::system_error.
  explicit IoUring(unsigned num_entries);
  IoUring(const IoUring&) = delete;
  IoUring& operator=(const IoUring&) = delete;
  ~IoUring();

  bool is_of_this_process() const;

  // Queue a read; at most num_entries are queued or being done. `number` comes back with its outcome.
  void queue_read(int descriptor, void* memory, std::size_t bytes, std::uint64_t offset, std::uint64_t number);

  // Hand what is queued to the kernel, and wait until a read is done; one must be queued or being done. Returns zero,
  // or the errno of a kernel that will not go on.
  int submit_and_wait();

  // Take back what the kernel has not taken; returns how many reads that were.
  unsigned withdraw_queued();

  struct Done {
    std::uint64_t number;
    std::int64_t outcome;  // bytes, or a negative errno
  };

  // Take the next of those that are done; false when there is none.
  bool take(Done& done);

  // Whether the kernel knows how to read (IORING_OP_READ).
  bool can_read() const;

 private:
  struct Mapped {
    void* memory = nullptr;
    std::size_t bytes = 0;
    void map(int ring, std::size_t size, std::uint64_t what);
    ~Mapped();
    template <class T>
    T* at(std::uint32_t place) const {
      return reinterpret_cast<T*>(static_cast<char*>(memory) + place);
    }
  };
  struct Descriptor {
    int number = -1;
    ~Descriptor();
  };

  Descriptor ring_;
  Mapped submissions_, entries_, completions_;
  int process_;
  // The kernel takes submissions at their head and we add them at their tail; of completions it is the other way round.
  std::atomic<std::uint32_t>* submission_head_ = nullptr;
  std::atomic<std::uint32_t>* submission_tail_ = nullptr;
  std::uint32_t submission_mask_ = 0;
  std::atomic<std::uint32_t>* completion_head_ = nullptr;
  std::atomic<std::uint32_t>* completion_tail_ = nullptr;
  std::uint32_t completion_mask_ = 0;
  std::uint32_t completions_at_ = 0;
  unsigned num_refused_ = 0;  // times in a row that the kernel took nothing
};

#endif

}  // namespace headrace
