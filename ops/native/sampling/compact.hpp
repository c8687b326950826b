// Renumber ids by first occurrence when nothing but the ids is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

// ids = `seen` followed by the ids of `values` that are not in it, by first occurrence; local[i] = place of values[i]
// in ids. Throws InputError when `seen` holds an id twice, and for more than 2^31 - 1 ids.
template <class Index>
Buffer<std::int64_t> compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                             std::size_t num_values, Index* local);

// Refuse `seen`, in which an id comes twice; places[i] = where seen[i] was numbered first.
[[noreturn]] void refuse_repeated(const std::int64_t* seen, const std::int64_t* places);

// Refuse more ids than a local id can number.
[[noreturn]] void refuse_size();

}  // namespace headrace
