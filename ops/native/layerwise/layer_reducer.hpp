// What the parts of a hop have to agree on, where a layer-wise rule decides for a frontier that was cut in parts, each
// of them in the hands of another thread, process or machine. Kernels do not know how the parts find each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/fixed_sum.hpp"

namespace headrace {

// Joins numbers of all parts. Every part calls the same functions in the same order, parts without candidates included.
class LayerReducer {
 public:
  LayerReducer() = default;
  LayerReducer(const LayerReducer&) = delete;
  LayerReducer& operator=(const LayerReducer&) = delete;
  virtual ~LayerReducer() = default;

  // Called first, with the global ids of this part's candidates. Other parts may have the same.
  virtual void begin(const std::int64_t* candidates, std::size_t num_candidates) = 0;
  // Which candidates this part counts, of [num_candidates]: each node is counted by one part.
  virtual void counted(bool* counted) = 0;
  // Replace each candidate's value, of at least 0, by the largest that any part has.
  virtual void largest(double* values) = 0;
  // Replace each candidate's `width` values by their sums over the parts that have it.
  virtual void sums(std::int64_t* values, std::size_t width) = 0;
  // Replace values by their sums over all parts.
  virtual void total(std::int64_t* values, std::size_t width) = 0;
  // The values of all parts, one part after the other.
  virtual Buffer<std::int64_t> gather(const Buffer<std::int64_t>& values) = 0;
};

// Some of the candidates: how many, and the sum of something about them.
struct Tally {
  FixedSum sum;
  std::uint64_t count = 0;
};

// A part's view of the whole hop. Without a reducer the part is the whole.
class LayerPart {
 public:
  LayerPart(LayerReducer* reducer, const Buffer<std::int64_t>& candidates);

  bool is_whole() const { return reducer_ == nullptr; }
  LayerReducer& reducer() const { return *reducer_; }

  // Find out which candidates this part counts. Call it once, before what follows.
  void count();
  // Whether this part counts a candidate.
  bool counts(std::size_t candidate) const { return reducer_ == nullptr || counted_[candidate]; }
  // The tally over all parts.
  Tally total(const Tally& tally) const;

 private:
  LayerReducer* reducer_;
  std::size_t num_candidates_;
  Buffer<bool> counted_;
};

}  // namespace headrace
