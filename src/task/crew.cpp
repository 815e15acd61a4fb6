// Crews and the depot in which they wait for the next scheduler.
#include "task/crew.hpp"

#include <mutex>

#include "task/worker.hpp"

namespace weft::task {
namespace {

struct Depot {
  std::mutex lock;
  std::vector<std::unique_ptr<Crew>> crews;
  std::vector<std::unique_ptr<Crew>> retired;
};

// Never ended: late signals may come while the process ends.
Depot& depot() {
  static auto* const the_depot = new Depot;
  return *the_depot;
}

}  // namespace

Crew::Crew(std::size_t count, bool two_levels) : two_levels_(two_levels) {
  for (std::size_t number = 0; number < count; ++number) {
    workers.push_back(
        std::make_unique<detail::Worker>(*this, static_cast<int>(number), two_levels));
  }
}

constinit std::atomic<Crew*> Crew::all{nullptr};

Crew::~Crew() = default;

Crew& Crew::take(std::size_t count, bool two_levels) {
  Depot& from = depot();
  const std::lock_guard hold(from.lock);
  for (auto& each : from.crews) {
    if (each->workers.size() != count || each->two_levels_ != two_levels) continue;
    std::swap(each, from.crews.back());
    Crew& crew = *from.crews.back().release();
    from.crews.pop_back();
    return crew;
  }
  from.crews.reserve(from.crews.size() + 1);
  Crew& crew = *new Crew(count, two_levels);
  // Under the depot's lock. release: pairs with offer_all's acquire; the crew is whole.
  crew.next_ = all.load(std::memory_order_relaxed);
  all.store(&crew, std::memory_order_release);
  return crew;
}

void Crew::give_back(Crew& crew, bool all_ended) noexcept {
  Depot& to = depot();
  crew.waking.store(false, std::memory_order_relaxed);  // its threads have ended
  const std::lock_guard hold(to.lock);
  // Fails only without memory; then this one is not used again.
  try {
    (all_ended ? to.crews : to.retired).emplace_back(&crew);
  } catch (const std::bad_alloc&) {
  }
}

void Crew::offer_all() noexcept {
  // acquire: pairs with take's release.
  for (Crew* each = all.load(std::memory_order_acquire); each != nullptr; each = each->next_) {
    each->offer();
  }
}

void Crew::hold_all() noexcept { depot().lock.lock(); }

void Crew::let_all_go(bool is_child) noexcept {
  Depot& kept = depot();
  if (is_child) {
    // relaxed: it has one thread.
    all.store(nullptr, std::memory_order_relaxed);
    for (auto& each : kept.crews) {
      each->next_ = all.load(std::memory_order_relaxed);
      all.store(each.get(), std::memory_order_relaxed);
    }
  }
  kept.lock.unlock();
}

void Crew::wake_one() noexcept {
  do {
    // Who fails to set it knows that somebody is coming; a sleeper clears it before it looks.
    // acq_rel: release the sleepers that it saw, to who clears it here.
    if (waking.exchange(true, std::memory_order_acq_rel)) return;
    for (auto& worker : workers) {
      if (worker->mode() == detail::Mode::asleep) {
        worker->wake();
        return;
      }
    }
    // One that was passed by awake may have gone to sleep since, and another offer have counted on
    // this one. acq_rel: after it there are the sleepers that such an offer saw.
    (void)waking.exchange(false, std::memory_order_acq_rel);
  } while (sleepers.load(std::memory_order_relaxed) != 0);  // then some mode is asleep
}

}  // namespace weft::task
