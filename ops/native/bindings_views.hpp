// Arrays of several dtypes in the bindings, and the kernels' views of them.
#pragma once

#include <variant>

#include "bindings.hpp"
#include "hop.hpp"

namespace headrace {

using AnyIds = std::variant<std::monostate, InArray<std::int32_t>, InArray<std::int64_t>>;

inline AnyIds any_ids(nb::handle array) {
  if (array.is_none()) return {};
  if (InArray<std::int32_t> narrow; nb::try_cast(array, narrow, false)) return narrow;
  return nb::cast<InArray<std::int64_t>>(array, false);
}

using AnyWeights = std::variant<std::monostate, InArray<float>, InArray<double>>;

inline AnyWeights any_weights(nb::handle array) {
  if (array.is_none()) return {};
  if (InArray<float> narrow; nb::try_cast(array, narrow, false)) return narrow;
  return nb::cast<InArray<double>>(array, false);
}

inline EdgeWeights view(const AnyWeights& weights) {
  EdgeWeights view;
  if (const auto* narrow = std::get_if<InArray<float>>(&weights)) view.narrow = narrow->data();
  if (const auto* wide = std::get_if<InArray<double>>(&weights)) view.wide = wide->data();
  return view;
}

inline std::size_t size(const AnyWeights& weights) {
  if (const auto* narrow = std::get_if<InArray<float>>(&weights)) return narrow->shape(0);
  if (const auto* wide = std::get_if<InArray<double>>(&weights)) return wide->shape(0);
  return 0;
}

inline EdgeIds view(const AnyIds& ids) {
  EdgeIds view;
  if (const auto* narrow = std::get_if<InArray<std::int32_t>>(&ids)) view.narrow = narrow->data();
  if (const auto* wide = std::get_if<InArray<std::int64_t>>(&ids)) view.wide = wide->data();
  return view;
}

template <class Index>
CscView<Index> view(const InArray<std::int64_t>& indptr, const InArray<Index>& indices) {
  return {indptr.data(), indptr.shape(0) - 1, indices.data(), indices.shape(0)};
}

template <class Index>
HopGraph<Index> view(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const AnyIds& edge_ids,
                     const AnyWeights& weights) {
  return {view(indptr, indices), view(edge_ids), view(weights)};
}

}  // namespace headrace
