#include "random/dropout.hpp"

#include "bindings/bindings.hpp"

namespace headrace {

void bind_dropout(nb::module_& m) {
  using nb::literals::operator""_a;
  m.def(
      "dropout_mask",
      [](std::uint64_t key, const InArray<std::int64_t>& ids, std::size_t width, std::uint64_t threshold,
         int num_threads) {
        constexpr std::size_t kMostWords = std::size_t{1} << 33;  // of the stream of one id
        if (width > kMostWords || (width != 0 && ids.shape(0) > (std::size_t{1} << 62) / width)) {
          throw InputError("dropout_mask: a mask of " + std::to_string(ids.shape(0)) + " rows of " +
                           std::to_string(width) + " elements is too large");
        }
        Buffer<bool> kept(ids.shape(0) * width);
        {
          const nb::gil_scoped_release release;
          dropout_mask(key, ids.data(), ids.shape(0), width, threshold, kept.data(), num_threads);
        }
        return to_numpy(std::move(kept));
      },
      "key"_a, "ids"_a.noconvert(), "width"_a, "threshold"_a, "num_threads"_a);
}

}  // namespace headrace
