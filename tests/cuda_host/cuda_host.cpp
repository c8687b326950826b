#include "cuda_host.hpp"

#include <ucontext.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_host {
namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

// Steps of a block, more than any kernel of a test needs: a block that has made them never ends. An access to memory is
// one, a wait at a barrier, which takes longer, several.
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 27;
constexpr std::uint64_t kBarrierSteps = 64;
// A thread steps aside at one access of so many, on average.
constexpr std::size_t kAccesses = 16;

// SplitMix64, for schedules.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t word = state_ += 0x9E3779B97F4A7C15U;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9U;
    word = (word ^ word >> 27) * 0x94D049BB133111EBU;
    return word ^ word >> 31;
  }

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

  template <class Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[below(left)]);
  }

 private:
  std::uint64_t state_;
};

// Tells AddressSanitizer on which stack what follows runs.
struct Stack {
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fake = nullptr;
};

void switch_stacks([[maybe_unused]] Stack* from, [[maybe_unused]] const Stack& to) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(from == nullptr ? nullptr : &from->fake, to.bottom, to.size);
#endif
}

void stacks_switched([[maybe_unused]] Stack& now, [[maybe_unused]] Stack* before) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(now.fake, &bottom, &size);
  if (before != nullptr) {
    before->bottom = bottom;
    before->size = size;
  }
#endif
}

// Where a stack is to go on. Threads change places millions of times, so this asks nothing of the system, as
// swapcontext() does, which keeps the mask of signals; nor is AddressSanitizer told of frames that end, as for
// longjmp(). Callers must take for granted that every register changes, whatever the compiler sees here.
#define ALONE __attribute__((noipa, no_sanitize_address))
using Place = void* [5];

[[noreturn]] ALONE void go_on_at(Place& to) { __builtin_longjmp(to, 1); }

ALONE void change_places(Place& from, Place& to) {
  if (__builtin_setjmp(from) == 0) go_on_at(to);
}

ALONE void begin_on(char* memory, void (*main)(), Place& from) {
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = memory;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, main, 0);
  if (__builtin_setjmp(from) == 0) setcontext(&context);
}

struct Fiber {
  std::unique_ptr<char[]> memory{new char[kStackBytes]};
  Place place;
  bool begun = false;
  Stack stack;
  Position position;
  bool ended = false;
  bool waits = false;
  Barrier barrier{};  // where it has waited last
};

struct Warp {
  std::uint64_t words[2][kLanes];  // what was exchanged last, and before
  unsigned arrived = 0;            // lanes
  unsigned mask = 0;               // that they wait for
  std::uint64_t round = 0;
};

class Scheduler;

// Whose kernel this thread of the system runs, if any: asked at each access to memory.
thread_local Scheduler* running = nullptr;

class Scheduler {
 public:
  const char* run(unsigned num_blocks, unsigned block_size, std::uint64_t seed, Body body, const void* argument) {
    if (block_size == 0 || block_size % kLanes != 0) return "a block that is not made of whole warps";
    random_ = Random(seed);
    body_ = body;
    argument_ = argument;
    while (fibers_.size() < block_size) fibers_.emplace_back();
    size_ = block_size;
    std::vector<unsigned> blocks(num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0U);
    random_.shuffle(blocks);
    running = this;
    until_yield_ = kAccesses;
    const char* error = nullptr;
    for (const unsigned block : blocks) {
      if ((error = run_block(block, num_blocks)) != nullptr) {
        fibers_.clear();  // they stand somewhere
        break;
      }
    }
    running = nullptr;
    return error;
  }

  const Position& position() const { return fibers_[current_].position; }
  unsigned lane() const { return static_cast<unsigned>(current_ % kLanes); }

  void step_aside() {
    step();
    if (random_.below(4) == 0) yield();
  }

  // What a thread reads or writes next.
  void access(std::uintptr_t address, std::size_t alignment) {
    const auto stack = reinterpret_cast<std::uintptr_t>(fibers_[current_].memory.get());
    if (address - stack < kStackBytes) return;  // its own
    if (address % alignment != 0) {
      fail("an address that is not a multiple of the " + std::to_string(alignment) + " bytes read or written there");
    }
    step();
    if (--until_yield_ != 0) return;
    until_yield_ = 1 + random_.below(2 * kAccesses - 1);
    yield();
  }

  void wait_for_block(const Barrier& barrier) {
    fibers_[current_].barrier = barrier;
    step(kBarrierSteps);
    const std::uint64_t round = block_round_;
    if (++block_arrived_ == size_) {
      block_arrived_ = 0;
      ++block_round_;
      wake_all();
    }
    while (block_round_ == round) wait();
    yield_sometimes();
  }

  const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const Barrier& barrier) {
    fibers_[current_].barrier = barrier;
    step(kBarrierSteps);
    Warp& warp = warps_[current_ / kLanes];
    const unsigned bit = 1U << lane();
    if ((mask & bit) == 0) fail("a lane that waits for others without itself");
    if (warp.arrived != 0 && warp.mask != mask) fail("lanes that wait for different lanes");
    warp.mask = mask;
    warp.arrived |= bit;
    const std::uint64_t round = warp.round;
    warp.words[round % 2][lane()] = value;
    if (warp.arrived == mask) {
      warp.arrived = 0;
      ++warp.round;
      wake_all();
    }
    while (warp.round == round) wait();
    yield_sometimes();
    return warp.words[round % 2];  // the round after the next writes here, for which all lanes of this one must arrive
  }

 private:
  const char* run_block(unsigned block, unsigned num_blocks) {
    error_.clear();
    steps_ = 0;
    block_arrived_ = 0;
    warps_.assign(size_ / kLanes, Warp());
    std::vector<std::size_t> order(size_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i < size_; ++i) {
      fibers_[i].position = {
          {static_cast<unsigned>(i)}, {block}, {static_cast<unsigned>(size_), 1, 1}, {num_blocks, 1, 1}};
      fibers_[i].ended = false;
      fibers_[i].waits = false;
      fibers_[i].barrier = {};
    }
    for (std::size_t left = size_; left != 0;) {
      random_.shuffle(order);
      bool any = false;
      for (const std::size_t i : order) {
        Fiber& fiber = fibers_[i];
        if (fiber.ended || fiber.waits) continue;
        any = true;
        current_ = i;
        enter(fiber);
        left -= fiber.ended ? 1 : 0;
        if (!error_.empty()) return error_.c_str();
      }
      if (!any) {
        error_ = "threads that wait for others, which have ended or wait elsewhere" + barriers();
        return error_.c_str();
      }
    }
    return nullptr;
  }

  // Where threads have waited last, and how many of them.
  std::string barriers() const {
    std::map<std::string, int> counts;
    for (std::size_t i = 0; i < size_; ++i) {
      const Barrier& barrier = fibers_[i].barrier;
      if (fibers_[i].ended || barrier.name == nullptr) continue;
      const char* const folder = std::strrchr(barrier.file, '/');
      const char* const file = folder == nullptr ? barrier.file : folder + 1;
      ++counts[std::string(barrier.name) + " in " + file + ":" + std::to_string(barrier.line)];
    }
    std::string found;
    for (const auto& [place, count] : counts) {
      found += (found.empty() ? "; last at " : ", ") + place + " (" + std::to_string(count) + " threads)";
    }
    return found;
  }

  // Leave a thread where it is: the block ends with an error.
  void fail(std::string error) {
    error_ = std::move(error);
    for (;;) yield();
  }

  void step(std::uint64_t steps = 1) {
    if ((steps_ += steps) > kMostSteps) fail("threads that never end" + barriers());
  }

  // Let a thread go on until it changes places. It stays on its stack, for the blocks and kernels to come.
  void enter(Fiber& fiber) {
    if (!fiber.begun) fiber.stack = {fiber.memory.get(), kStackBytes, nullptr};
    switch_stacks(&own_, fiber.stack);
    if (fiber.begun) {
      change_places(place_, fiber.place);
    } else {
      fiber.begun = true;
      begin_on(fiber.memory.get(), &Scheduler::main_of_fiber, place_);
    }
    stacks_switched(own_, nullptr);
  }

  static void main_of_fiber();

  void yield() {
    Fiber& fiber = fibers_[current_];
    switch_stacks(&fiber.stack, own_);
    change_places(fiber.place, place_);
    stacks_switched(fiber.stack, &own_);
  }

  void yield_sometimes() {
    if (random_.below(2) == 0) yield();
  }

  void wait() {
    fibers_[current_].waits = true;
    yield();
  }

  void wake_all() {
    for (std::size_t i = 0; i < size_; ++i) fibers_[i].waits = false;
  }

  Random random_{0};
  Body body_ = nullptr;
  const void* argument_ = nullptr;
  std::deque<Fiber> fibers_;  // which does not move what it has: fibers stand on their stacks
  std::vector<Warp> warps_;
  std::size_t size_ = 0;
  std::size_t current_ = 0;
  std::size_t block_arrived_ = 0;
  std::uint64_t block_round_ = 0;
  Place place_;
  Stack own_;
  std::string error_;
  std::uint64_t steps_ = 0;
  std::size_t until_yield_ = kAccesses;
};

// Kernels of several threads of the system may run at the same time.
Scheduler& scheduler() {
  static thread_local Scheduler one;
  return one;
}

void Scheduler::main_of_fiber() {
  Scheduler& here = scheduler();
  Fiber& fiber = here.fibers_[here.current_];
  stacks_switched(fiber.stack, &here.own_);
  for (;;) {
    here.body_(here.argument_);
    fiber.ended = true;
    here.yield();
  }
}

}  // namespace

Index thread_index() { return scheduler().position().thread; }
Index block_index() { return scheduler().position().block; }
Index block_size() { return scheduler().position().block_size; }
Index grid_size() { return scheduler().position().grid_size; }
unsigned lane() { return scheduler().lane(); }
void step_aside() { scheduler().step_aside(); }
void access(std::uintptr_t address, std::size_t alignment) {
  if (running != nullptr) running->access(address, alignment);
}
void wait_for_block(const Barrier& barrier) { scheduler().wait_for_block(barrier); }
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const Barrier& barrier) {
  return scheduler().exchange(mask, value, barrier);
}

const char* run(unsigned num_blocks, unsigned block_size, std::uint64_t seed, Body body, const void* argument) {
  return scheduler().run(num_blocks, block_size, seed, body, argument);
}

}  // namespace cuda_host
