// Objects that tasks use one after the other.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/forks.hpp"

namespace headrace {

// A task takes an object, and gives it back at its end; `make()` makes one when there is none. The last one given back
// is the next one taken, so that a thread mostly finds its own, with the memory that is in the cache of its core. A
// forked process begins with none.
template <class Make>
class Pool {
 public:
  using Object = decltype(std::declval<const Make&>()());

  explicit Pool(Make make) : make_(std::move(make)) {}

  std::unique_ptr<Object> take() {
    {
      Kept& kept = kept_.get();
      const std::lock_guard<std::mutex> lock(kept.mutex);
      if (!kept.objects.empty()) {
        std::unique_ptr<Object> object = std::move(kept.objects.back());
        kept.objects.pop_back();
        return object;
      }
    }
    return std::make_unique<Object>(make_());
  }

  void give_back(std::unique_ptr<Object> object) {
    Kept& kept = kept_.get();
    const std::lock_guard<std::mutex> lock(kept.mutex);
    kept.objects.push_back(std::move(object));
  }

  // Of those that no task has now.
  template <class Visit>
  void for_each_kept(const Visit& visit) {
    Kept& kept = kept_.get();
    const std::lock_guard<std::mutex> lock(kept.mutex);
    for (const auto& object : kept.objects) visit(*object);
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::vector<std::unique_ptr<Object>> objects;
  };

  Make make_;
  PerProcess<Kept> kept_;
};

}  // namespace headrace
