#include "random/variate_keys.hpp"

#include "random/normal.hpp"

namespace headrace {

Turn quarter_turn(double part) {
  // Taylor series of angles up to an eighth of a turn.
  const bool early = part <= 0.5;
  const double angle = (early ? part : 1.0 - part) * 1.5707963267948966;
  const double square = angle * angle;
  double even = 1.0;
  double odd = 1.0;
  for (int n = 16; n > 0; n -= 2) {
    even = 1.0 - square / static_cast<double>(n * (n - 1)) * even;
    odd = 1.0 - square / static_cast<double>(n * (n + 1)) * odd;
  }
  odd = angle * odd;
  return early ? Turn{even, odd} : Turn{odd, even};
}

std::uint64_t blended_variate(std::uint64_t one, std::uint64_t other, Turn turn) {
  return normal_variate(turn.cosine * normal_quantile(unit_interval(one)) +
                        turn.sine * normal_quantile(unit_interval(other)));
}

}  // namespace headrace
