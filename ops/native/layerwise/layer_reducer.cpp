#include "layerwise/layer_reducer.hpp"

namespace headrace {

LayerPart::LayerPart(LayerReducer* reducer, const Buffer<std::int64_t>& candidates)
    : reducer_(reducer), num_candidates_(candidates.size()) {
  if (reducer_ != nullptr) reducer_->begin(candidates.data(), num_candidates_);
}

void LayerPart::count() {
  if (is_whole()) return;
  counted_.resize(num_candidates_);
  reducer_->counted(counted_.data());
}

Tally LayerPart::total(const Tally& tally) const {
  if (is_whole()) return tally;
  std::int64_t words[FixedSum::kLimbs + 1];
  tally.sum.write_limbs(words);
  words[FixedSum::kLimbs] = static_cast<std::int64_t>(tally.count);
  reducer_->total(words, FixedSum::kLimbs + 1);
  return {FixedSum::from_limbs(words), static_cast<std::uint64_t>(words[FixedSum::kLimbs])};
}

}  // namespace headrace
