// Ordered sets of entries for the engines with few locks: what a search costs is their difference.
//
// Not thread-safe: each lies under a lock of its engine. An entry fits another if their keys are
// equal where neither is a wildcard. `first` is the oldest that fits: receives with wildcards among
// messages, or messages among receives with wildcards; never wildcards among wildcards. It adds to
// `passed` what it looked at that does not fit.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "mpi/abi/mpi.h"
#include "mpi/entry.hpp"

namespace weft::mpi {

[[nodiscard]] inline bool fit(const Entry& a, const Entry& b) noexcept {
  return (a.process == b.process || a.process == kAnySource || b.process == kAnySource) &&
         (a.tag == b.tag || a.tag == MPI_ANY_TAG || b.tag == MPI_ANY_TAG);
}

/// One doubly linked list, oldest first. O(length).
class ListStore {
 public:
  void append(Entry& entry) noexcept {
    entry.next = nullptr;
    entry.previous = last_;
    (last_ != nullptr ? last_->next : first_) = &entry;
    last_ = &entry;
  }
  void remove(Entry& entry) noexcept {
    (entry.previous != nullptr ? entry.previous->next : first_) = entry.next;
    (entry.next != nullptr ? entry.next->previous : last_) = entry.previous;
  }
  [[nodiscard]] Entry* first(const Entry& wanted, uint64_t& passed) const noexcept {
    for (Entry* each = first_; each != nullptr; each = each->next) {
      if (fit(*each, wanted)) return each;
      ++passed;
    }
    return nullptr;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (Entry* each = first_; each != nullptr;) {
      Entry* const next = each->next;
      visit(*each);
      each = next;
    }
  }
  /// The oldest, taken out; nullptr: empty.
  Entry* pop() noexcept {
    Entry* const oldest = first_;
    if (oldest != nullptr) remove(*oldest);
    return oldest;
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

 private:
  Entry* first_ = nullptr;
  Entry* last_ = nullptr;
};

[[nodiscard]] inline Entry* older(Entry* a, Entry* b) noexcept {
  if (a == nullptr || b == nullptr) return a != nullptr ? a : b;
  return a->stamp < b->stamp ? a : b;
}

/// Several lists, chosen by `Pick`, and one for the entries that belong to no single one; what is
/// oldest of two lists is told by stamps. `Pick::of(entry)` < 0: the odd ones.
template <class Pick>
class SplitStore {
 public:
  void append(Entry& entry) {
    entry.stamp = ++stamp_;
    list(entry).append(entry);
  }
  void remove(Entry& entry) { list(entry).remove(entry); }
  [[nodiscard]] Entry* first(const Entry& wanted, uint64_t& passed) const {
    const int64_t number = Pick::of(wanted);
    Entry* found = odd_.first(wanted, passed);
    if (number >= 0) {
      const auto at = lists_.find(number);
      return at == lists_.end() ? found : older(found, at->second.first(wanted, passed));
    }
    for (const auto& [key, each] : lists_) found = older(found, each.first(wanted, passed));
    return found;
  }
  template <class Visit>
  void for_each(Visit visit) const {
    odd_.for_each(visit);
    for (const auto& [key, each] : lists_) each.for_each(visit);
  }

 private:
  ListStore& list(const Entry& entry) {
    const int64_t number = Pick::of(entry);
    return number < 0 ? odd_ : lists_[number];
  }
  std::unordered_map<int64_t, ListStore> lists_;
  ListStore odd_;
  uint64_t stamp_ = 0;
};

/// A list for each sender.
struct BySource {
  static int64_t of(const Entry& entry) noexcept { return entry.process.value; }
};
using SourceStore = SplitStore<BySource>;

/// Bins by sender and tag.
struct ByBin {
  static constexpr int64_t kBins = 256;
  static int64_t of(const Entry& entry) noexcept {
    if (entry.process == kAnySource || entry.tag == MPI_ANY_TAG) return -1;
    const auto key = static_cast<uint64_t>(entry.process.value) * 0x9e3779b97f4a7c15U +
                     static_cast<uint64_t>(entry.tag);
    return static_cast<int64_t>((key ^ key >> 32) % kBins);
  }
};
using BinStore = SplitStore<ByBin>;

}  // namespace weft::mpi
