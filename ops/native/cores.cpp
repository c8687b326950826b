#include "cores.hpp"

#ifdef __linux__
#include <pthread.h>
#endif

namespace headrace {

#ifdef __linux__

OtherCores::OtherCores() noexcept : known_(sched_getaffinity(0, sizeof allowed_, &allowed_) == 0) {}

void OtherCores::place(std::thread& helper, std::size_t num_helpers_before) const noexcept {
  const int here = sched_getcpu();
  if (!known_ || here < 0 || here >= CPU_SETSIZE) return;
  if (static_cast<std::size_t>(CPU_COUNT(&allowed_)) <= num_helpers_before + 1) return;
  cpu_set_t others = allowed_;
  CPU_CLR(static_cast<std::size_t>(here), &others);
  static_cast<void>(pthread_setaffinity_np(helper.native_handle(), sizeof others, &others));
}

#else

OtherCores::OtherCores() noexcept = default;
void OtherCores::place(std::thread& /*helper*/, std::size_t /*num_helpers_before*/) const noexcept {}

#endif

}  // namespace headrace
