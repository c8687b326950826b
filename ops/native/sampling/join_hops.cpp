#include "sampling/join_hops.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "sampling/node_table.hpp"

namespace headrace {
namespace {

void check_rows(const HopEdges& hop) {
  const CscView<std::int64_t> rows{hop.indptr, hop.num_rows, nullptr, hop.num_edges};
  for (std::size_t i = 0; i < hop.num_rows; ++i) rows.row(static_cast<std::int64_t>(i));
  const std::int64_t first = hop.indptr[0];
  const std::int64_t last = hop.indptr[hop.num_rows];
  if (first == 0 && last == static_cast<std::int64_t>(hop.num_edges)) return;
  throw InputError("join_hops: expected indptr to run from 0 to the number of edges, " + std::to_string(hop.num_edges) +
                   ", got " + std::to_string(first) + " to " + std::to_string(last));
}

// The distinct edge ids of one row, as far as hops have brought them.
class RowEdges {
 public:
  // Begin another row, of up to `num_edges` edges over all hops.
  void begin(std::size_t num_edges) {
    // Numbers of earlier rows are forgotten, as NodeMap does.
    first_ += static_cast<std::uint32_t>(num_ids_);
    num_ids_ = 0;
    if (num_edges > kMostNumbers) throw InputError("join_hops: more than 2**31 - 1 edges into one destination");
    if (first_ > kMostNumbers) {
      table_.clear();
      first_ = 1;
    }
    ids_.resize(num_edges + 1);
  }

  // Add a hop's edges, and write the positions of those that no earlier hop has behind `kept`, if there is such a list.
  void add(const std::int64_t* edge_ids, std::size_t start, std::size_t count, Buffer<std::int64_t>* kept) {
    places_.resize(count);
    const std::size_t num_known = num_ids_;
    num_ids_ = table_.number(edge_ids + start, count, places_.data(), ids_.data(), num_ids_, first_);
    if (kept == nullptr) return;
    kept->ensure_spare(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<std::size_t>(places_[i]) >= num_known) kept->push_back(static_cast<std::int64_t>(start + i));
    }
  }

 private:
  static constexpr std::size_t kMostNumbers = (std::size_t{1} << 31) - 1;

  NodeTable table_{true};
  std::uint32_t first_ = 1;
  std::size_t num_ids_ = 0;
  Buffer<std::int64_t> ids_;
  Buffer<std::int64_t> places_;
};

using Kept = std::vector<Buffer<std::int64_t>>;

// Of each hop the positions of kept edges in the rows that an earlier hop has as well.
Kept keep_first(const std::vector<HopEdges>& hops, const std::vector<std::size_t>& shared_rows) {
  Kept kept(hops.size());
  RowEdges row_edges;
  const std::size_t num_rows = hops.empty() ? 0 : *std::max_element(shared_rows.begin(), shared_rows.end());
  for (std::size_t row = 0; row < num_rows; ++row) {
    std::size_t num_edges = 0;
    for (const HopEdges& hop : hops) num_edges += hop.degree(row);
    row_edges.begin(num_edges);
    for (std::size_t h = 0; h < hops.size(); ++h) {
      if (row >= hops[h].num_rows) continue;
      // Of the first hop with this row all are kept, and nobody asks which.
      row_edges.add(hops[h].edge_ids, static_cast<std::size_t>(hops[h].indptr[row]), hops[h].degree(row),
                    row < shared_rows[h] ? &kept[h] : nullptr);
    }
  }
  return kept;
}

// Where the next edges go.
struct Out {
  std::int64_t* sources;
  std::int64_t* destinations;
  std::int64_t* edge_ids;  // null where hops have none

  void advance(std::size_t count) {
    sources += count;
    destinations += count;
    if (edge_ids != nullptr) edge_ids += count;
  }
};

void write_kept(const HopEdges& hop, const Buffer<std::int64_t>& kept, Out& out) {
  std::size_t row = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::int64_t position = kept[i];
    while (hop.indptr[row + 1] <= position) ++row;
    out.sources[i] = hop.sources[position];
    out.destinations[i] = static_cast<std::int64_t>(row);
    out.edge_ids[i] = hop.edge_ids[position];
  }
  out.advance(kept.size());
}

// Write all edges of the rows from `first` on.
void write_rest(const HopEdges& hop, std::size_t first, Out& out) {
  const auto start = static_cast<std::size_t>(hop.indptr[first]);
  const std::size_t count = hop.num_edges - start;
  if (hop.sources.narrow != nullptr) {
    std::copy_n(hop.sources.narrow + start, count, out.sources);
  } else {
    std::copy_n(hop.sources.wide + start, count, out.sources);
  }
  std::int64_t* destinations = out.destinations;
  for (std::size_t row = first; row < hop.num_rows; ++row) {
    destinations = std::fill_n(destinations, hop.degree(row), static_cast<std::int64_t>(row));
  }
  if (out.edge_ids != nullptr) std::copy_n(hop.edge_ids + start, count, out.edge_ids);
  out.advance(count);
}

}  // namespace

JoinedHops join_hops(const std::vector<HopEdges>& hops) {
  for (const HopEdges& hop : hops) check_rows(hop);
  std::vector<std::size_t> shared_rows;
  std::size_t most_rows = 0;
  for (const HopEdges& hop : hops) {
    shared_rows.push_back(std::min(most_rows, hop.num_rows));
    most_rows = std::max(most_rows, hop.num_rows);
  }
  JoinedHops joined;
  joined.kept = keep_first(hops, shared_rows);
  std::size_t num_joined = 0;
  for (std::size_t h = 0; h < hops.size(); ++h) {
    joined.num_checked.push_back(static_cast<std::size_t>(hops[h].indptr[shared_rows[h]]));
    num_joined += joined.kept[h].size() + hops[h].num_edges - joined.num_checked[h];
  }
  joined.edge_index.resize(2 * num_joined);
  const bool have_ids = !hops.empty() && hops[0].edge_ids != nullptr;
  if (have_ids) joined.edge_ids.resize(num_joined);
  std::int64_t* const begin = joined.edge_index.data();
  Out out{begin, begin + num_joined, have_ids ? joined.edge_ids.data() : nullptr};
  for (std::size_t h = 0; h < hops.size(); ++h) {
    write_kept(hops[h], joined.kept[h], out);
    write_rest(hops[h], shared_rows[h], out);
  }
  return joined;
}

}  // namespace headrace
