// Objects that tasks use one after the other.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace headrace {

// A task takes an object, and gives it back at its end; `make()` makes one when there is none. The last one given back
// is the next one taken, so that a thread mostly finds its own, with the memory that is in the cache of its core.
template <class Make>
class Pool {
 public:
  using Object = decltype(std::declval<const Make&>()());

  explicit Pool(Make make) : make_(std::move(make)) {}

  std::unique_ptr<Object> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!objects_.empty()) {
        std::unique_ptr<Object> object = std::move(objects_.back());
        objects_.pop_back();
        return object;
      }
    }
    return std::make_unique<Object>(make_());
  }

  void give_back(std::unique_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    objects_.push_back(std::move(object));
  }

  // Of those that no task has now.
  template <class Visit>
  void for_each_kept(const Visit& visit) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& object : objects_) visit(*object);
  }

 private:
  Make make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace headrace
