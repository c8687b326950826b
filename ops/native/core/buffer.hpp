// A growable array that never fills: kernels write every element they keep, so zeroing would only cost memory traffic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "core/memory.hpp"

namespace headrace {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { resize(size); }
  // An array that stays as long as a graph does.
  static Buffer long_lived(std::size_t size) {
    if (size > max_size()) throw std::bad_alloc();
    Buffer buffer;
    buffer.data_ = static_cast<T*>(take_block(size * sizeof(T), Lifetime::kLong));
    buffer.size_ = buffer.capacity_ = size;
    return buffer;
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { give_block(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t spare() const { return capacity_ - size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

  // New elements are not initialised.
  void resize(std::size_t size) {
    if (size > capacity_) reallocate(size);
    size_ = size;
  }

  // Make room for `extra` more elements behind size(), growing by half so that appending is amortised.
  void ensure_spare(std::size_t extra) {
    if (extra > max_size() - size_) throw std::bad_alloc();
    if (const std::size_t needed = size_ + extra; needed > capacity_) {
      reallocate(std::max(needed, std::min(max_size(), capacity_ + capacity_ / 2)));
    }
  }

  void push_back(T value) {
    if (size_ == capacity_) ensure_spare(16);
    data_[size_++] = value;
  }

  void extend(const Buffer& tail) {
    if (tail.size() == 0) return;
    ensure_spare(tail.size());
    std::memcpy(data_ + size_, tail.data(), tail.size() * sizeof(T));
    size_ += tail.size();
  }

  // Hand the memory over to whoever calls give_block on it.
  T* release() {
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  static constexpr std::size_t max_size() {
    return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / sizeof(T);
  }

  void reallocate(std::size_t capacity) {
    if (capacity > max_size()) throw std::bad_alloc();
    T* const memory = static_cast<T*>(take_block(capacity * sizeof(T)));
    if (size_ != 0) std::memcpy(memory, data_, size_ * sizeof(T));
    give_block(std::exchange(data_, memory));
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace headrace
