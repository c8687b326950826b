#include "disk/row_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "core/errors.hpp"

namespace headrace {
namespace {

// The text of an errno; strerror is not for several threads.
std::string text_of(int error) { return std::generic_category().message(error); }

void check(const RowLayout& layout) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(layout.num_rows, std::uint64_t{layout.row_bytes}, &bytes) ||
      __builtin_add_overflow(bytes, layout.start, &bytes) ||
      bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - RowFile::kBlockBytes) {
    throw InputError("expected rows that fit in a file, got " + std::to_string(layout.num_rows) + " of " +
                     std::to_string(layout.row_bytes) + " bytes");
  }
}

}  // namespace

RowFile::RowFile(int descriptor, std::string name, RowLayout layout, bool direct)
    : name_(std::move(name)), layout_(layout) {
  check(layout);
  const bool is_own = open_anew(descriptor);
  try {
    opened_ = version();
    is_direct_ = direct && is_own && read_directly();
  } catch (...) {
    close(descriptor_);
    throw;
  }
#ifdef POSIX_FADV_RANDOM
  // Rows are anywhere: what follows one is not read ahead.
  if (is_own && !is_direct_) posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
#endif
}

RowFile::~RowFile() { close(descriptor_); }

// Returns whether it could. A system without /proc, and a file that this process may no longer open, leave a duplicate,
// whose state is the owner's: it is not touched.
bool RowFile::open_anew(int descriptor) {
#ifdef __linux__
  const std::string there = "/proc/self/fd/" + std::to_string(descriptor);
  descriptor_ = open(there.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe has nobody to wait for
  if (descriptor_ >= 0) {
    const int flags = fcntl(descriptor_, F_GETFL);
    if (flags >= 0) fcntl(descriptor_, F_SETFL, flags & ~O_NONBLOCK);
    return true;
  }
#endif
  descriptor_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) throw InputError("cannot keep " + name_ + " open: " + text_of(errno));
  const int flags = fcntl(descriptor_, F_GETFL);
  waits_ = flags < 0 || (flags & O_NONBLOCK) == 0;
  return false;
}

// Some file systems refuse the flag, others take it and refuse to read, so a block is read for a trial.
bool RowFile::read_directly() {
#ifdef O_DIRECT
  const int flags = fcntl(descriptor_, F_GETFL);
  if (flags < 0 || fcntl(descriptor_, F_SETFL, flags | O_DIRECT) != 0) return false;
  struct Free {
    void operator()(char* memory) const { ::operator delete(memory, std::align_val_t{kBlockBytes}); }
  };
  const std::unique_ptr<char, Free> block(
      static_cast<char*>(::operator new(kBlockBytes, std::align_val_t{kBlockBytes})));
  for (const off_t offset : {off_t{0}, off_t{kBlockBytes}}) {
    if (pread(descriptor_, block.get(), kBlockBytes, offset) < 0) {
      fcntl(descriptor_, F_SETFL, flags);
      return false;
    }
  }
  return true;
#else
  return false;
#endif
}

RowFile::Version RowFile::version() const {
  struct stat status;
  if (fstat(descriptor_, &status) != 0) throw InputError("cannot look at " + name_ + ": " + text_of(errno));
#ifdef __APPLE__
  const timespec& changed = status.st_mtimespec;
#else
  const timespec& changed = status.st_mtim;
#endif
  return {status.st_size, changed.tv_sec, changed.tv_nsec};
}

void RowFile::check_unchanged() const {
  if (version() != opened_) {
    throw InputError("expected " + name_ +
                     " as it was when it was opened, but it has been written to since; open it once more, and put "
                     "new rows into a new file that takes its name");
  }
}

void RowFile::throw_error(std::uint64_t first, std::uint64_t last, int error) const {
  const std::string rows = first == last ? "row " + std::to_string(first)
                                         : "all of rows " + std::to_string(first) + " to " + std::to_string(last);
  throw InputError("cannot read " + rows + " of " + name_ + ": " + text_of(error));
}

void RowFile::throw_truncated(std::uint64_t row) const {
  throw InputError("expected " + std::to_string(layout_.num_rows) + " rows in " + name_ + ", but it ends in row " +
                   std::to_string(row) + "; it was truncated after it was opened: copy it once more");
}

}  // namespace headrace
