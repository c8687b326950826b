#include "graphs/csc_buckets.hpp"

#include <algorithm>
#include <mutex>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"

namespace headrace {
namespace {

constexpr unsigned kBucketBits = 11;  // as many write positions as a core's second cache holds lines for
constexpr std::size_t kFewEdges = std::size_t{1} << 15;
constexpr std::size_t kLargeShare = 16;  // a bucket of more than 1 / 16 of all edges is placed from the edge list
constexpr unsigned char kNotLarge = 0xFF;
constexpr double kNanoseconds = 5;  // what one thread takes about for an edge

unsigned bits_of(std::size_t num_values) {
  unsigned bits = 0;
  while (bits < 63 && std::size_t{1} << bits < num_values) ++bits;
  return bits;
}

// An edge in 64 bits: source, position in the edge list, row within the bucket.
struct Packing {
  unsigned id_bits;
  unsigned edge_bits;
  unsigned row_bits;  // 2^row_bits rows make a bucket

  Packing(std::size_t num_nodes, std::size_t num_edges)
      : id_bits(bits_of(num_nodes)),
        edge_bits(bits_of(num_edges)),
        row_bits(id_bits > kBucketBits ? id_bits - kBucketBits : 0) {}

  bool fits() const { return id_bits + edge_bits + row_bits <= 64; }

  std::uint64_t pack(std::uint64_t source, std::uint64_t edge, std::uint64_t destination) const {
    return source | edge << id_bits | row(destination) << (id_bits + edge_bits);
  }
  std::uint64_t source(std::uint64_t packed) const { return packed & mask(id_bits); }
  std::uint64_t edge(std::uint64_t packed) const { return packed >> id_bits & mask(edge_bits); }
  std::size_t row_of(std::uint64_t packed) const { return static_cast<std::size_t>(packed >> (id_bits + edge_bits)); }
  std::uint64_t row(std::uint64_t destination) const { return destination & mask(row_bits); }
  std::size_t bucket(std::uint64_t destination) const { return static_cast<std::size_t>(destination >> row_bits); }

 private:
  static std::uint64_t mask(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }
};

// Edges of one bucket, as its rows' cursors place them.
class Rows {
 public:
  // Of `num_rows` rows; the bucket's edges begin at `first`.
  Rows(std::size_t num_rows, std::size_t first) : cursors_(num_rows + 1, 0), first_(static_cast<std::int64_t>(first)) {}

  void count(std::size_t row) { ++cursors_[row + 1]; }
  // Counts become the places where rows begin; those where they end go to `ends`.
  void finish_counting(std::int64_t* ends) {
    cursors_[0] = first_;
    for (std::size_t row = 1; row < cursors_.size(); ++row) {
      cursors_[row] += cursors_[row - 1];
      ends[row - 1] = cursors_[row];
    }
  }
  std::int64_t place(std::size_t row) { return cursors_[row]++; }

 private:
  std::vector<std::int64_t> cursors_;
  std::int64_t first_;
};

template <class Id, class Index, class EdgeId>
class BucketSort {
 public:
  BucketSort(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes, std::int64_t* indptr,
             Index* indices, EdgeId* edge_ids)
      : src_(src),
        dst_(dst),
        num_edges_(num_edges),
        num_nodes_(num_nodes),
        indptr_(indptr),
        indices_(indices),
        edge_ids_(edge_ids),
        packing_(num_nodes, num_edges),
        num_buckets_(packing_.bucket(num_nodes - 1) + 1) {}

  void run(int num_threads) {
    num_threads = threads_for(num_threads, kNanoseconds * static_cast<double>(num_edges_));
    const auto num_parts = static_cast<std::size_t>(num_threads);
    const auto part_of = [&](std::size_t part) { return part_bound(num_edges_, num_parts, part); };
    std::vector<std::size_t> cursors(num_parts * num_buckets_, 0);  // [part][bucket]
    parallel_for(num_threads, num_parts, [&](std::size_t part) {
      count(part_of(part), part_of(part + 1), cursors.data() + part * num_buckets_);
    });
    to_starts(cursors, num_parts);
    parallel_for(num_threads, num_parts, [&](std::size_t part) {
      distribute(part_of(part), part_of(part + 1), cursors.data() + part * num_buckets_);
    });
    indptr_[0] = 0;
    sort_large();
    // Copies of all threads together, and the one that is large for a thread, stay below 1 / 8 of the output.
    const std::size_t usual = num_edges_ / kLargeShare / num_parts;
    std::mutex large_copy;
    parallel_for(num_threads, num_parts, [&](std::size_t part) {
      auto packed = Buffer<std::uint64_t>::long_lived(usual);
      for (std::size_t bucket = part; bucket < num_buckets_; bucket += num_parts) {
        if (size(bucket) > num_edges_ / kLargeShare) continue;
        if (size(bucket) <= usual) {
          sort(bucket, packed.data());
        } else {
          const std::lock_guard<std::mutex> lock(large_copy);
          auto more = Buffer<std::uint64_t>::long_lived(size(bucket));
          sort(bucket, more.data());
        }
      }
    });
  }

 private:
  void count(std::size_t begin, std::size_t end, std::size_t* counts) const {
    for (std::size_t i = begin; i < end; ++i) ++counts[packing_.bucket(static_cast<std::uint64_t>(dst_[i]))];
  }

  // Bucket by bucket, and within each part by part: that keeps the order of the edge list.
  void to_starts(std::vector<std::size_t>& counts, std::size_t num_parts) {
    starts_.resize(num_buckets_ + 1);
    std::size_t sum = 0;
    for (std::size_t bucket = 0; bucket < num_buckets_; ++bucket) {
      starts_[bucket] = sum;
      for (std::size_t part = 0; part < num_parts; ++part) {
        std::size_t& count = counts[part * num_buckets_ + bucket];
        sum += count;
        count = sum - count;
      }
    }
    starts_[num_buckets_] = sum;
  }

  void distribute(std::size_t begin, std::size_t end, std::size_t* cursors) const {
    for (std::size_t i = begin; i < end; ++i) {
      const auto destination = static_cast<std::uint64_t>(dst_[i]);
      const std::size_t place = cursors[packing_.bucket(destination)]++;
      const std::uint64_t packed = packing_.pack(static_cast<std::uint64_t>(src_[i]), i, destination);
      indices_[place] = static_cast<Index>(static_cast<std::uint32_t>(packed));
      edge_ids_[place] = static_cast<EdgeId>(static_cast<std::uint32_t>(packed >> 32));
    }
  }

  std::uint64_t packed_at(std::size_t place) const {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(edge_ids_[place])) << 32 |
           static_cast<std::uint32_t>(indices_[place]);
  }

  void put(std::int64_t place, std::uint64_t source, std::uint64_t edge) const {
    indices_[place] = static_cast<Index>(source);
    edge_ids_[place] = static_cast<EdgeId>(edge);
  }

  std::size_t size(std::size_t bucket) const { return starts_[bucket + 1] - starts_[bucket]; }
  std::size_t first_row(std::size_t bucket) const { return bucket << packing_.row_bits; }
  std::int64_t* row_ends(std::size_t bucket) const { return indptr_ + first_row(bucket) + 1; }
  Rows rows_of(std::size_t bucket) const {
    return Rows(std::min(std::size_t{1} << packing_.row_bits, num_nodes_ - first_row(bucket)), starts_[bucket]);
  }

  // `packed` has room for the bucket's edges.
  void sort(std::size_t bucket, std::uint64_t* packed) const {
    const std::size_t num_packed = size(bucket);
    Rows rows = rows_of(bucket);
    for (std::size_t k = 0; k < num_packed; ++k) {
      packed[k] = packed_at(starts_[bucket] + k);
      rows.count(packing_.row_of(packed[k]));
    }
    rows.finish_counting(row_ends(bucket));
    for (std::size_t k = 0; k < num_packed; ++k) {
      put(rows.place(packing_.row_of(packed[k])), packing_.source(packed[k]), packing_.edge(packed[k]));
    }
  }

  // Buckets that are too large for a copy, of which there are fewer than kLargeShare.
  void sort_large() const {
    std::vector<unsigned char> large_number(num_buckets_, kNotLarge);
    std::vector<std::size_t> buckets;
    std::vector<Rows> rows;
    for (std::size_t bucket = 0; bucket < num_buckets_; ++bucket) {
      if (size(bucket) <= num_edges_ / kLargeShare) continue;
      large_number[bucket] = static_cast<unsigned char>(rows.size());
      buckets.push_back(bucket);
      rows.push_back(rows_of(bucket));
    }
    if (rows.empty()) return;
    const auto for_edges = [&](const auto& body) {
      for (std::size_t i = 0; i < num_edges_; ++i) {
        const auto destination = static_cast<std::uint64_t>(dst_[i]);
        const unsigned char number = large_number[packing_.bucket(destination)];
        if (number != kNotLarge) body(i, rows[number], static_cast<std::size_t>(packing_.row(destination)));
      }
    };
    for_edges([](std::size_t /*edge*/, Rows& bucket, std::size_t row) { bucket.count(row); });
    for (std::size_t k = 0; k < rows.size(); ++k) rows[k].finish_counting(row_ends(buckets[k]));
    for_edges([&](std::size_t edge, Rows& bucket, std::size_t row) {
      put(bucket.place(row), static_cast<std::uint64_t>(src_[edge]), edge);
    });
  }

  StridedIds<Id> src_;
  StridedIds<Id> dst_;
  std::size_t num_edges_;
  std::size_t num_nodes_;
  std::int64_t* indptr_;
  Index* indices_;
  EdgeId* edge_ids_;
  Packing packing_;
  std::size_t num_buckets_;
  std::vector<std::size_t> starts_;
};

}  // namespace

bool has_buckets(std::size_t num_nodes, std::size_t num_edges) {
  const Packing packing(num_nodes, num_edges);
  return num_edges >= kFewEdges && packing.row_bits != 0 && packing.fits();
}

template <class Id, class Index, class EdgeId>
void place_by_bucket(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes,
                     std::int64_t* indptr, Index* indices, EdgeId* edge_ids, int num_threads) {
  BucketSort<Id, Index, EdgeId>(src, dst, num_edges, num_nodes, indptr, indices, edge_ids).run(num_threads);
}

#define HEADRACE_INSTANTIATE(Id, Index, EdgeId)                                                              \
  template void place_by_bucket<Id, Index, EdgeId>(StridedIds<Id>, StridedIds<Id>, std::size_t, std::size_t, \
                                                   std::int64_t*, Index*, EdgeId*, int);
HEADRACE_INSTANTIATE(std::int32_t, std::int32_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int32_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int32_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int32_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int64_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int64_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int64_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int64_t, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
