#include "sampling/hop.hpp"

#include <string>

#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "sampling/registry.hpp"

namespace headrace {

template <class Index>
void sample_hop(const HopCall<Index>& call) {
  const Rule rule = call.rule;
  if (rule.by_weight && call.graph.weights.none()) {
    throw InputError("sample_hop: expected weights for a rule that picks by weight, got none; pass weights=");
  }
  if (call.frontier.bounds != nullptr && call.graph.times == nullptr) {
    throw InputError("sample_hop: expected the times of edges for a frontier with bounds, got none; pass times=");
  }
  if (call.frontier.lows != nullptr && call.frontier.bounds == nullptr) {
    throw InputError("sample_hop: expected bounds for a frontier with lower bounds, got none; pass bounds=");
  }
  if (rule.is_layer_wise() && call.frontier.slots != nullptr) {
    throw InputError(
        "sample_hop: expected a frontier without slots for a layer-wise rule, which decides for all of it together, "
        "got "
        "slots; sample each slot by itself");
  }
  HopGraph<Index> graph = call.graph;
  if (!rule.by_weight) graph.weights = {};
  if (call.frontier.lows != nullptr) graph.weights.sums = nullptr;  // they begin where rows do
  sampler_of<Index>(rule)({graph, call.frontier, rule, call.keys, call.num_threads, call.sink, call.reducer});
}

void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name) {
  const std::size_t i = first_out_of_range(frontier, 0, num_dst, num_nodes);
  if (i == num_dst) return;
  throw InputError(std::string(name) + "[" + std::to_string(i) + "] = " + std::to_string(frontier[i]) +
                   " is not a node of the graph: expected 0 <= id < num_nodes = " + std::to_string(num_nodes));
}

template void sample_hop<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_hop<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
