// Large arrays that are made again for every minibatch, without paying the operating system for them every time.
//
// A minibatch of 300 MB of features is 73,000 fresh pages; letting the kernel zero and map them takes longer than
// filling them. Blocks that are given back are kept and handed out again, and are backed by huge pages where the
// system has them.
#pragma once

#include <cstddef>

namespace headrace {

enum class Lifetime {
  kBatch,  // will be given back soon: comes from the pool and returns to it
  kLong,   // an array of a graph: returns to the system
};

// At least `bytes` bytes, aligned to 64, contents undefined. Throws std::bad_alloc. Thread-safe, like give_block.
void* take_block(std::size_t bytes, Lifetime lifetime = Lifetime::kBatch);

// Return a block; null is ignored.
void give_block(void* block) noexcept;

// Hand all waiting blocks back to the system; return their bytes. With those in use they are at most an eighth more
// than were ever used at once.
std::size_t trim_pool() noexcept;

}  // namespace headrace
