// The variates of LABOR, many at once: the same integers as labor_variate (stream.hpp, variate_keys.hpp), several per
// instruction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random/variate_keys.hpp"

namespace headrace {

// Variates that are made at once where the machine can; the last ones of another count are made one by one.
constexpr std::size_t kVariatesAtOnce = 8;

// out[i] = labor_variate(keys, nodes[i]).
template <class Index>
void labor_variates(const VariateKeys& keys, const Index* nodes, std::size_t count, std::uint64_t* out);

// out[i] = labor_variate(keys, nodes[i], numbers[i]).
template <class Index>
void labor_variates(const VariateKeys& keys, const Index* nodes, const std::uint32_t* numbers, std::size_t count,
                    std::uint64_t* out);

}  // namespace headrace
