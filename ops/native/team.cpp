#include "team.hpp"

#include <algorithm>

#include "cores.hpp"

namespace headrace {

Team::~Team() {
  expect_last();
  begin({});
  for (std::thread& helper : helpers_) helper.join();
}

void Team::start(std::size_t num_tasks) {
  const std::size_t num_threads = std::min(static_cast<std::size_t>(std::max(num_threads_, 1)), num_tasks);
  if (helpers_.size() + 1 >= num_threads) return;
  // No helper gets further than this lock, and so none ends, before all have their places.
  const std::lock_guard<std::mutex> lock(mutex_);
  const OtherCores other_cores;
  try {
    helpers_.reserve(num_threads - 1);
    while (helpers_.size() + 1 < num_threads) {
      helpers_.emplace_back([this] { help(); });
      other_cores.place(helpers_.back(), helpers_.size() - 1);
    }
  } catch (const std::exception&) {
    // The process may not start more threads: those there are, and this one, do all the tasks.
  }
}

void Team::begin(Job job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = job;
    last_ = expects_last_;
    ++num_calls_;
  }
  called_.notify_all();
}

void Team::end() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = {};
  }
  const auto alone = [this] { return num_busy_ == 0; };
  if (wait_awake(alone)) return;
  std::unique_lock<std::mutex> lock(mutex_);
  returned_.wait(lock, alone);
}

void Team::help() {
  std::size_t num_heard = 0;
  const auto called = [&] { return num_calls_ != num_heard; };
  bool leaves = false;
  while (!leaves) {
    wait_awake(called);
    std::unique_lock<std::mutex> lock(mutex_);
    called_.wait(lock, called);
    num_heard = num_calls_;
    leaves = last_;
    const Job job = job_;
    if (job.tasks == nullptr) continue;  // it is over
    ++num_busy_;
    lock.unlock();
    while (job.run_one(job.tasks)) continue;
    lock.lock();
    --num_busy_;
    lock.unlock();
    returned_.notify_one();
  }
}

}  // namespace headrace
