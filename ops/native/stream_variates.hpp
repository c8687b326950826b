// The words of one id's stream, many at a time and two by two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruction_set.hpp"

namespace headrace {

// Entries that `out` must have room for behind the last one it is asked for.
constexpr std::size_t kVariatesSlack = 16;

// out[i] = words 2i and 2i + 1 behind block `first_block` of the stream of `id`, the first one in the upper half;
// i < count. Every instruction set gives the same.
void stream_variates(std::uint64_t key, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                     std::uint64_t* out, InstructionSet set = best_instruction_set());

}  // namespace headrace
