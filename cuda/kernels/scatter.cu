// Twin of ops/native/features/scatter.cpp: rows that one id receives are added in their order.

#include <cstdint>

#include "grid.cuh"

namespace headrace {

// `order` sorts the ids and leaves equal ones in their order; `sorted` are the ids in it. The thread of an id's first
// row and of one of its columns adds that column of all its rows.
template <class Value, class Id>
__global__ void scatter_add_rows(Value* out, std::int64_t width, const Id* sorted, const std::int64_t* order,
                                 std::int64_t num_ids, const Value* rows) {
  for_each_item(num_ids * width, [&](std::int64_t item) {
    std::int64_t i = item / width;
    const std::int64_t column = item % width;
    const Id id = sorted[i];
    if (i != 0 && sorted[i - 1] == id) return;
    Value* const to = out + static_cast<std::int64_t>(id) * width + column;
    Value sum = *to;
    for (; i < num_ids && sorted[i] == id; ++i) sum += rows[order[i] * width + column];
    *to = sum;
  });
}

}  // namespace headrace
