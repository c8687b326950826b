// The variates r_t of LABOR for a whole row at once: the same integers as labor_variate, several per instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// out[i] = labor_variate(key, vertices[i]).
template <class Index>
void labor_variates(std::uint64_t key, const Index* vertices, std::size_t count, std::uint64_t* out);

}  // namespace headrace
