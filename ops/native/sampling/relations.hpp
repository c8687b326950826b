// The relations of a graph with types. A node has one row for each relation that may end in it, and these lie one after
// the other: for kernels the rows are the nodes of a CSC, and a relation says which row of a node is its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace headrace {

// Its destinations are a range of node ids.
struct Relation {
  std::int64_t first_node;
  std::int64_t end_node;
  std::int64_t first_row;  // of `first_node`
  std::int64_t stride;     // rows of a node

  bool ends_in(std::int64_t node) const { return node >= first_node && node < end_node; }
  std::int64_t row(std::int64_t node) const { return first_row + (node - first_node) * stride; }
};

// Throws InputError where a relation names rows or nodes that are not there.
inline void check_relations(const std::vector<Relation>& relations, std::size_t num_nodes, std::size_t num_rows) {
  const auto nodes = static_cast<std::int64_t>(num_nodes);
  const auto rows = static_cast<std::int64_t>(num_rows);
  for (std::size_t r = 0; r < relations.size(); ++r) {
    const Relation& relation = relations[r];
    const bool has_range = relation.first_node >= 0 && relation.first_node <= relation.end_node;
    const std::int64_t size = has_range ? relation.end_node - relation.first_node : 0;
    const bool fits =
        has_range && relation.end_node <= nodes && relation.stride >= 1 && relation.first_row >= 0 &&
        (size == 0 || (relation.first_row < rows && size - 1 <= (rows - 1 - relation.first_row) / relation.stride));
    if (!fits) {
      throw InputError("relation " + std::to_string(r) +
                       " leads to rows or nodes that are not there: expected rows of " + std::to_string(num_rows) +
                       " and nodes of " + std::to_string(num_nodes));
    }
  }
}

}  // namespace headrace
