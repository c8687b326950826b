// What GCC calls at each access to memory in code that it compiles with -fsanitize=thread. ThreadSanitizer itself is
// not linked: these functions are in its place, and let other threads of a block go first. So an update that is no
// atomic operation is lost in some schedule, and an address that a GPU would refuse for its alignment is an error.
// Locals that stay in registers are no accesses, as on a GPU.

#include "cuda_host.hpp"

#define ACCESS(bytes)                                                                                              \
  void __tsan_read##bytes(void* address) { cuda_host::access(reinterpret_cast<std::uintptr_t>(address), bytes); }  \
  void __tsan_write##bytes(void* address) { cuda_host::access(reinterpret_cast<std::uintptr_t>(address), bytes); } \
  void __tsan_unaligned_read##bytes(void* address) {                                                               \
    cuda_host::access(reinterpret_cast<std::uintptr_t>(address), 1);                                               \
  }                                                                                                                \
  void __tsan_unaligned_write##bytes(void* address) { cuda_host::access(reinterpret_cast<std::uintptr_t>(address), 1); }

extern "C" {

ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

// Of structures, whose members have alignments of their own.
void __tsan_read_range(void* address, std::size_t) { cuda_host::access(reinterpret_cast<std::uintptr_t>(address), 1); }
void __tsan_write_range(void* address, std::size_t) { cuda_host::access(reinterpret_cast<std::uintptr_t>(address), 1); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

}  // extern "C"
