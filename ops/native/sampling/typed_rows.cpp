#include "sampling/typed_rows.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "graphs/graph.hpp"

namespace headrace {
namespace {

constexpr double kEdgeNanoseconds = 2;  // what one thread takes about
constexpr double kRowNanoseconds = 2;

// The rows of the nodes of a type.
struct RowsOfType {
  std::int64_t first_row = 0;
  std::int64_t stride = 1;
  std::vector<std::int64_t> ranks;  // of each relation its number among those that end in the type, or -1
};

// Throws std::bad_alloc for more rows than there are numbers.
std::vector<RowsOfType> rows_of_types(const NodeAndEdgeTypes& types, std::int64_t& num_rows) {
  std::vector<RowsOfType> found(types.num_types);
  num_rows = 0;
  for (std::size_t t = 0; t < types.num_types; ++t) {
    RowsOfType& one = found[t];
    std::int64_t rank = 0;
    for (std::size_t r = 0; r < types.num_relations; ++r) {
      one.ranks.push_back(types.ends[t * types.num_relations + r] ? rank++ : -1);
    }
    one.first_row = num_rows;
    one.stride = std::max<std::int64_t>(rank, 1);
    const std::int64_t size = types.first_nodes[t + 1] - types.first_nodes[t];
    if (size > (std::numeric_limits<std::int64_t>::max() - 1 - num_rows) / one.stride) throw std::bad_alloc();
    num_rows += size * one.stride;
  }
  return found;
}

// Where offsets begin that rise from 0, the last range that begins at a value or before; -1 or the number of ranges for
// a value in none.
std::int64_t range_of(const std::int64_t* offsets, std::size_t num_ranges, std::int64_t value) {
  return std::upper_bound(offsets, offsets + num_ranges + 1, value) - offsets - 1;
}

struct Elsewhere {
  std::int64_t edge;
  std::int64_t relation;
  std::int64_t node;
};

// What a part of the nodes finds.
struct Faults {
  bool beyond = false;
  bool unsorted = false;
  std::optional<Elsewhere> elsewhere;  // the first
};

class RowWriter {
 public:
  RowWriter(EdgeIds edge_ids, const NodeAndEdgeTypes& types, std::int64_t* row_ptr)
      : edge_ids_(edge_ids), types_(types), row_ptr_(row_ptr) {}

  // The rows of a node, of which the first is `first_row`.
  void write(std::int64_t node, const Row& edges, const RowsOfType& rows, std::int64_t first_row,
             Faults& faults) const {
    const std::int64_t stop = edges.start + static_cast<std::int64_t>(edges.degree);
    std::int64_t written = 0;
    for (std::int64_t position = edges.start; position < stop;) {
      const std::int64_t relation = range_of(types_.first_edges, types_.num_relations, id(position));
      if (relation < 0 || relation >= static_cast<std::int64_t>(types_.num_relations)) {
        faults.beyond = true;
        return;
      }
      const std::int64_t rank = rows.ranks[static_cast<std::size_t>(relation)];
      if (rank < 0) {
        if (!faults.elsewhere) faults.elsewhere = Elsewhere{id(position), relation, node};
      } else if (rank + 1 < written) {
        faults.unsorted = true;
      } else {
        while (written <= rank) row_ptr_[first_row + written++] = position;
      }
      position = end_of_run(position, stop, types_.first_edges[relation], types_.first_edges[relation + 1]);
    }
    while (written < rows.stride) row_ptr_[first_row + written++] = stop;
  }

 private:
  std::int64_t id(std::int64_t position) const { return edge_ids_.is_position() ? position : edge_ids_[position]; }

  // The first position behind `position` whose edge is not of the relation that has the ids [first, end).
  std::int64_t end_of_run(std::int64_t position, std::int64_t stop, std::int64_t first, std::int64_t end) const {
    if (edge_ids_.is_position()) return std::min(stop, end);
    do {
      ++position;
    } while (position < stop && edge_ids_[position] >= first && edge_ids_[position] < end);
    return position;
  }

  EdgeIds edge_ids_;
  NodeAndEdgeTypes types_;
  std::int64_t* row_ptr_;
};

// As one part after the other would have found them.
void check(const std::vector<Faults>& parts, std::int64_t end_of_relations) {
  const auto any = [&](auto holds) { return std::find_if(parts.begin(), parts.end(), holds); };
  if (any([](const Faults& one) { return one.beyond; }) != parts.end()) {
    throw InputError("typed_rows: expected edge ids below " + std::to_string(end_of_relations) +
                     ", the end of the last relation");
  }
  if (const auto part = any([](const Faults& one) { return one.elsewhere.has_value(); }); part != parts.end()) {
    const Elsewhere& found = *part->elsewhere;
    throw InputError("Graph: edge " + std::to_string(found.edge) + " of relation " + std::to_string(found.relation) +
                     " ends in node " + std::to_string(found.node) +
                     ", which has another type than that relation ends in");
  }
  if (any([](const Faults& one) { return one.unsorted; }) != parts.end()) {
    throw InputError("Graph: expected in-edges of each node sorted by edge type, got others; build it with from_coo");
  }
}

}  // namespace

Buffer<std::int64_t> find_typed_rows(const std::int64_t* indptr, std::size_t num_nodes, EdgeIds edge_ids,
                                     std::size_t num_edges, const NodeAndEdgeTypes& types, int num_threads) {
  std::int64_t num_rows = 0;
  const std::vector<RowsOfType> of_types = rows_of_types(types, num_rows);
  auto row_ptr = Buffer<std::int64_t>::long_lived(static_cast<std::size_t>(num_rows) + 1);
  row_ptr[static_cast<std::size_t>(num_rows)] = static_cast<std::int64_t>(num_edges);

  const CscView<std::int32_t> graph{indptr, num_nodes, nullptr, num_edges};
  const RowWriter writer(edge_ids, types, row_ptr.data());
  num_threads = threads_for(
      num_threads, kEdgeNanoseconds * static_cast<double>(num_edges) + kRowNanoseconds * static_cast<double>(num_rows));
  num_threads = static_cast<int>(helpers_for(num_threads, num_nodes) + 1);
  const std::size_t num_parts = parts_for(num_threads);
  std::vector<Faults> faults(num_parts);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const auto first = static_cast<std::int64_t>(part_bound(num_nodes, num_parts, part));
    const auto end = static_cast<std::int64_t>(part_bound(num_nodes, num_parts, part + 1));
    if (first == end) return;
    auto type = static_cast<std::size_t>(range_of(types.first_nodes, types.num_types, first));
    for (std::int64_t node = first; node < end && !faults[part].beyond; ++node) {
      while (node >= types.first_nodes[type + 1]) ++type;
      const RowsOfType& rows = of_types[type];
      const std::int64_t first_row = rows.first_row + (node - types.first_nodes[type]) * rows.stride;
      writer.write(node, graph.row(node), rows, first_row, faults[part]);
    }
  });
  check(faults, types.first_edges[types.num_relations]);
  return row_ptr;
}

}  // namespace headrace
