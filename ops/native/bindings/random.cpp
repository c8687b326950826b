#include <nanobind/stl/array.h>

#include "bindings/bindings.hpp"
#include "core/instruction_set.hpp"
#include "random/bounded.hpp"
#include "random/dropout.hpp"
#include "random/philox.hpp"
#include "random/shuffle.hpp"
#include "random/stream.hpp"

namespace headrace {

namespace {

void check_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop) {
  if (start <= stop && stop <= num_items && num_items <= kMostPermutedItems) return;
  throw InputError("expected 0 <= start <= stop <= num_items <= 2**62");
}

template <class Write>
OutArray<std::int64_t> items_of(std::uint64_t start, std::uint64_t stop, const Write& write) {
  return to_numpy(unlocked([&] {
    Buffer<std::int64_t> items(static_cast<std::size_t>(stop - start));
    write(items.data());
    return items;
  }));
}

OutArray<bool> mask(std::uint64_t key, const InArray<std::int64_t>& ids, std::size_t width, std::uint64_t threshold,
                    int num_threads) {
  constexpr std::size_t kMostWords = std::size_t{1} << 33;  // of the stream of one id
  if (width > kMostWords || (width != 0 && ids.shape(0) > (std::size_t{1} << 62) / width)) {
    throw InputError("dropout_mask: a mask of " + std::to_string(ids.shape(0)) + " rows of " + std::to_string(width) +
                     " elements is too large");
  }
  Buffer<bool> kept(ids.shape(0) * width);
  unlocked([&] { dropout_mask(key, ids.data(), ids.shape(0), width, threshold, kept.data(), num_threads); });
  return to_numpy(std::move(kept));
}

}  // namespace

void bind_random(nb::module_& m) {
  nb::enum_<InstructionSet>(m, "InstructionSet")
      .value("PORTABLE", InstructionSet::kPortable)
      .value("AVX2", InstructionSet::kAvx2)
      .value("AVX512", InstructionSet::kAvx512);
  m.def("has", &has, "instructions"_a);
  m.def("use_instruction_set", &use_instruction_set, "instructions"_a);
  m.def("philox4x32", &philox4x32<>, "counter"_a, "key"_a);
  m.def("stream_key", &stream_key, "seed"_a, "epoch"_a, "batch"_a, "layer"_a, "purpose"_a);
  m.def(
      "stream_words",
      [](std::uint64_t key, std::uint64_t id, std::size_t num_words) {
        Buffer<std::uint32_t> words(num_words);
        WordStream stream(key, id);
        for (std::size_t i = 0; i < num_words; ++i) words[i] = stream.next();
        return to_numpy(std::move(words));
      },
      "key"_a, "identifier"_a, "num_words"_a);
  m.def(
      "bounded_integers",
      [](std::uint64_t key, std::uint64_t id, std::uint64_t bound, std::size_t count) {
        Buffer<std::uint64_t> values(count);
        WordStream stream(key, id);
        for (std::size_t i = 0; i < count; ++i) values[i] = bounded(stream, bound);
        return to_numpy(std::move(values));
      },
      "key"_a, "identifier"_a, "bound"_a, "count"_a);
  m.def(
      "shuffled_range",
      [](std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key) {
        check_range(num_items, start, stop);
        return items_of(start, stop, [=](std::int64_t* out) { shuffled_range(num_items, start, stop, key, out); });
      },
      "num_items"_a, "start"_a, "stop"_a, "key"_a);
  // For the tests: also of few items, of which shuffled_range lists the order.
  m.def(
      "feistel_range",
      [](std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key) {
        check_range(num_items, start, stop);
        return items_of(start, stop, [=](std::int64_t* out) { feistel_range(num_items, start, stop, key, out); });
      },
      "num_items"_a, "start"_a, "stop"_a, "key"_a);
  m.def("dropout_mask", &mask, "key"_a, "ids"_array, "width"_a, "threshold"_a, "num_threads"_a);
}

}  // namespace headrace
