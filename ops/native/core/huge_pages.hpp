// Huge pages for arrays that are read at random: fewer translations of addresses to miss.
#pragma once

#include <cstddef>

namespace headrace {

constexpr std::size_t kHugePage = std::size_t{1} << 21;

// Ask for huge pages where `memory` has no pages yet. A refusal by the system costs nothing but speed.
void prefer_huge_pages(void* memory, std::size_t bytes) noexcept;

// Have the system put what the memory holds into huge pages now. Memory that is mapped from a file is left alone.
// Returns how many bytes are in huge pages then; 0 where the system cannot (Linux can from 6.1 on).
std::size_t use_huge_pages(void* memory, std::size_t bytes);

}  // namespace headrace
