// The queue locks' nodes and slow ways.
#include "weft/base/arbitrated_locks.hpp"

#include <algorithm>
#include <new>

#include "base/at_thread_exit.hpp"
#include "weft/base/topology.hpp"

namespace weft::base {

// ---- nodes of ClhLock --------------------------------------------------------------------------

struct alignas(kCacheLine) ClhLock::Node {
  Turn turn;
  Node* next = nullptr;  ///< in a pool
  uint64_t uses = 0;     ///< times queued; the owner's
};

namespace {

using Node = ClhLock::Node;

/// Nodes that no lock and no thread has: a stack to which is pushed one by one, and which is taken
/// as a whole, so that it needs no lock (which a fork could leave held). Never unmapped (ClhLock's
/// invariant 3).
constinit std::atomic<Node*> pool{nullptr};

constexpr unsigned kNodeAddressBits = 48;  // what ClhLock's word has room for

/// A thread's own few: whoever acquires takes one and gets another, so two are mostly enough.
struct Cache {
  Node* first = nullptr;
  unsigned count = 0;
  bool told = false;  ///< that it is to be emptied when the thread ends
};
constinit thread_local Cache cache;
constexpr unsigned kCached = 8;

void give_to_pool(Node& node) noexcept {
  Node* first = pool.load(std::memory_order_relaxed);
  do {
    node.next = first;
    // release: pairs with take_from_pool's acquire; the node is whole.
  } while (!pool.compare_exchange_weak(first, &node, std::memory_order_release,
                                       std::memory_order_relaxed));
}

void empty_cache(void* /*unused*/) noexcept {
  while (cache.first != nullptr) {
    Node& node = *cache.first;
    cache.first = node.next;
    give_to_pool(node);
  }
  cache.count = 0;
  cache.told = false;
}

void tell_of_cache() noexcept {
  if (cache.told) return;
  cache.told = true;
  AtThreadExit<empty_cache>::arm(&cache);
}

void give_node(Node& node) noexcept;

Node& take_from_pool() noexcept {
  // acquire: pairs with give_to_pool's release.
  Node* const node = pool.exchange(nullptr, std::memory_order_acquire);
  if (node == nullptr) {
    Node* const made = new (std::nothrow) Node;
    WEFT_CHECK(made != nullptr, "no memory for a place in a lock");
    WEFT_CHECK(reinterpret_cast<uintptr_t>(made) >> kNodeAddressBits == 0,
               "memory at an address of more than 48 bits");
    return *made;
  }
  for (Node* rest = node->next; rest != nullptr;) {
    Node& more = *rest;
    rest = rest->next;
    give_node(more);
  }
  return *node;
}

// Not in line: who waits in between may be a task and go on in another thread.
[[gnu::noinline]] Node& take_node() noexcept {
  Node* const node = cache.first;
  if (node == nullptr) [[unlikely]]
    return take_from_pool();
  cache.first = node->next;
  --cache.count;
  return *node;
}

[[gnu::noinline]] void give_node(Node& node) noexcept {
  tell_of_cache();
  if (cache.count >= kCached) [[unlikely]] {
    give_to_pool(node);
    return;
  }
  node.next = cache.first;
  cache.first = &node;
  ++cache.count;
}

}  // namespace

// ---- CLH ---------------------------------------------------------------------------------------

uint64_t ClhLock::word_of(const Node& node) noexcept {
  static_assert(alignof(Node) == 1U << kAlignBits);
  static_assert(kAlignBits + kAddressBits == kNodeAddressBits);
  return reinterpret_cast<uintptr_t>(&node) >> kAlignBits | node.uses << kAddressBits;
}

ClhLock::ClhLock() {
  tail_.store(word_of(take_node()), std::memory_order_relaxed);  // nobody else yet
}

ClhLock::~ClhLock() {
  Node& last = *node_of(tail_.load(std::memory_order_relaxed));  // nobody else any more
  WEFT_CHECK(last.turn.is_given(), "a lock ended while somebody had it");
  give_node(last);
}

void ClhLock::acquire(Place& place) noexcept {
  Node& mine = take_node();
  ++mine.uses;
  mine.turn.close();
  // release: our closed turn is seen by who finds the node last; acquire: so is that of the one
  // before us.
  Node& before = *node_of(tail_.exchange(word_of(mine), std::memory_order_acq_rel));
  before.turn.wait();
  give_node(before);
  place.mine = &mine;
}

bool ClhLock::try_acquire(Place& place) noexcept {
  // acquire: as in acquire.
  uint64_t word = tail_.load(std::memory_order_acquire);
  Node& last = *node_of(word);
  if (!last.turn.is_given()) return false;
  Node& mine = take_node();
  ++mine.uses;
  mine.turn.close();
  // acq_rel: as in acquire. Succeeds only if `last` was not queued again since we looked: its turn
  // is still given.
  if (!tail_.compare_exchange_strong(word, word_of(mine), std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
    mine.turn.give();  // as it is in a pool
    give_node(mine);
    return false;
  }
  give_node(last);
  place.mine = &mine;
  return true;
}

void ClhLock::release(Place& place) noexcept { place.mine->turn.give(); }

// ---- priority ----------------------------------------------------------------------------------

void PriorityClhLock::acquire(Place& place) noexcept {
  high_.acquire(place.queue);
  place.low = false;
  if (main_path_has_gate_) return;
  gate_.acquire(main_path_);
  main_path_has_gate_ = true;
}

void PriorityClhLock::acquire_low(Place& place) noexcept {
  low_.acquire(place.queue);
  gate_.acquire(place.gate);
  place.low = true;
}

bool PriorityClhLock::try_acquire(Place& place) noexcept {
  if (!high_.try_acquire(place.queue)) return false;
  place.low = false;
  if (!main_path_has_gate_) {
    if (!gate_.try_acquire(main_path_)) {
      high_.release(place.queue);
      return false;
    }
    main_path_has_gate_ = true;
  }
  return true;
}

void PriorityClhLock::release(Place& place) noexcept {
  if (place.low) {
    gate_.release(place.gate);
    low_.release(place.queue);
    return;
  }
  // Whoever queues after this look takes the gate anew.
  if (!high_.has_waiters(place.queue)) {
    main_path_has_gate_ = false;
    gate_.release(main_path_);
  }
  high_.release(place.queue);
}

// ---- cohorts -----------------------------------------------------------------------------------

CohortLock::CohortLock(uint32_t most_passes)
    : nodes_(static_cast<unsigned>(std::max(1, Topology::machine().numa_nodes()))),
      most_passes_(most_passes) {
  cohorts_ = std::make_unique<Cohort[]>(nodes_);
}

CohortLock::Cohort& CohortLock::cohort_of_caller(Place& place) noexcept {
  place.node = 0;
  if (nodes_ > 1) {
    const int node = Topology::machine().this_numa_node();
    if (node > 0 && static_cast<unsigned>(node) < nodes_) place.node = static_cast<unsigned>(node);
  }
  return cohorts_[place.node];
}

void CohortLock::acquire(Place& place) noexcept {
  Cohort& cohort = cohort_of_caller(place);
  cohort.local.acquire(place.local);
  if (cohort.has_global) return;
  global_.acquire(cohort.global);
  cohort.has_global = true;
  cohort.passes = 0;
}

bool CohortLock::try_acquire(Place& place) noexcept {
  Cohort& cohort = cohort_of_caller(place);
  if (!cohort.local.try_acquire(place.local)) return false;
  if (!cohort.has_global) {
    if (!global_.try_acquire(cohort.global)) {
      cohort.local.release(place.local);
      return false;
    }
    cohort.has_global = true;
    cohort.passes = 0;
  }
  return true;
}

void CohortLock::release(Place& place) noexcept {
  Cohort& cohort = cohorts_[place.node];
  if (!cohort.local.has_waiters(place.local) || ++cohort.passes > most_passes_) {
    cohort.has_global = false;
    global_.release(cohort.global);
  }
  cohort.local.release(place.local);
}

// ---- CLHub's parts -----------------------------------------------------------------------------

void detail::BargingLock::acquire_parked(unsigned slot) noexcept {
  Parker& parker = this_parker();
  for (;;) {
    // The heavy fence orders it: either release's look finds us, or our try its store. release:
    // pairs with wake_sleeper's acquire; our parker is whole.
    sleepers_[slot].store(&parker, std::memory_order_release);
    heavy_fence();
    if (try_acquire()) break;
    parker.park();
    // Woken: who woke us took our name out, so that the next releases cost nobody a system call
    // while we come. If the lock was taken again meanwhile, try for a while before sleeping anew.
    for (BriefSpin spin; spin.again();) {
      if (try_acquire()) {
        sleepers_[slot].store(nullptr, std::memory_order_relaxed);
        return;
      }
    }
  }
  sleepers_[slot].store(nullptr, std::memory_order_relaxed);
}

void detail::BargingLock::wake_sleeper(unsigned slot) noexcept {
  // acquire: pairs with the sleeper's release. A late wake finds a parker that outlives its
  // context, and a context that looks again.
  Parker* const parker = sleepers_[slot].exchange(nullptr, std::memory_order_acquire);
  if (parker != nullptr) parker->unpark();
}

void detail::Filter::wait_parked() noexcept {
  Parker& parker = this_parker();
  for (;;) {
    sleeper_.store(&parker, std::memory_order_release);  // as BargingLock::acquire_parked
    heavy_fence();
    if (!up_.load(std::memory_order_relaxed)) break;  // a hint
    parker.park();
  }
  sleeper_.store(nullptr, std::memory_order_relaxed);
}

void detail::Filter::wake_sleeper() noexcept {
  Parker* const parker = sleeper_.exchange(nullptr, std::memory_order_acquire);  // as above
  if (parker != nullptr) parker->unpark();
}

}  // namespace weft::base
