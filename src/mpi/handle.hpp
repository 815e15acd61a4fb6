// Handles: the numbers that programs hold for communicators, datatypes and the like.
//
// The ABI's predefined handles are numbers below 0x1000; ours lie above and name a place in a table
// and how often that place was used before, so that a freed handle is told from its successor. They
// fit an int (MPI_Comm_toint and its kin). Lookups take no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace weft::mpi {

/// Counts who holds an object: its handle, and each operation under way that needs it. The object
/// ends with the last of them.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  /// The last one ends it.
  void drop() noexcept {
    // acq_rel: what any holder did happens before the end.
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  std::atomic<uint32_t> holders_{1};
};

/// For what is to be there until the very end: a session may end with a static object of the
/// program's (process.cpp).
template <class T>
T& never_destroyed() {
  return *new T;
}

/// A counted object, held.
template <class T>
class Held {
 public:
  Held() noexcept = default;
  /// Takes over the caller's hold.
  static Held adopt(T* object) noexcept {
    Held held;
    held.object_ = object;
    return held;
  }
  /// Holds it, too.
  explicit Held(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->hold();
  }
  Held(const Held& other) noexcept : Held(other.object_) {}
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Held() {
    if (object_ != nullptr) object_->drop();
  }
  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// Gives the hold away.
  T* release() noexcept { return std::exchange(object_, nullptr); }

 private:
  T* object_ = nullptr;
};

/// Throws MPI_ERR_OTHER: there are so many objects of a kind already.
[[noreturn]] void refuse_more_handles(uint32_t count);

/// Where the program called what makes a handle now, if leaks are to be told, else nullptr:
/// process/caller.cpp.
const void* program_call() noexcept;

/// A handle as a number: predefined below kFirstOwn.
inline constexpr uintptr_t kFirstOwn = 0x1000;
inline constexpr unsigned kGenerationBits = 12;

/// The objects of one kind, by handle. `Handle` is the ABI's pointer type (MPI_Comm …).
///
/// Who may call: any thread. `find` never blocks; `add`, `remove` take a lock. A table does not
/// hold its predefined objects alive, only those that were added. Never destroyed: it stands in
/// static memory, or is made by never_destroyed.
template <class T, class Handle>
class HandleTable {
 public:
  constexpr HandleTable() = default;
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() = default;

  /// Gives a predefined handle its object (nullptr takes it back). At set-up.
  void define(Handle handle, T* object) noexcept {
    predefined_[reinterpret_cast<uintptr_t>(handle)].store(object, std::memory_order_release);
  }
  /// Takes over a hold of `object`; its handle. Throws Failure if there are too many, or
  Handle add(T* object) {
    const std::scoped_lock guard(lock_);
    uint32_t index;
    if (free_ != kNone) {
      index = std::exchange(free_, this->place(free_)->next);
    } else {
      index = used_;
      if (index == kChunks * kChunk) refuse_more_handles(index);
      auto& chunk = chunks_[index / kChunk];
      if (chunk.load(std::memory_order_relaxed) == nullptr) {
        // release: pairs with place()'s acquire.
        chunk.store(new Place[kChunk], std::memory_order_release);
      }
      ++used_;
    }
    Place& place = *this->place(index);
    place.made_at.store(program_call(), std::memory_order_relaxed);
    // release: pairs with find's acquire; the object is whole.
    place.object.store(object, std::memory_order_release);
    return name(index, place.generation.load(std::memory_order_relaxed));
  }
  /// Ends the handle; the hold goes to the caller. nullptr: there is no such handle, or it is
  /// predefined.
  T* remove(Handle handle) noexcept {
    const std::scoped_lock guard(lock_);
    T* object = find(handle);
    const auto value = reinterpret_cast<uintptr_t>(handle);
    if (object == nullptr || value < kFirstOwn) return nullptr;
    const auto index = static_cast<uint32_t>((value >> kGenerationBits) - 1);
    Place& place = *this->place(index);
    place.object.store(nullptr, std::memory_order_relaxed);
    place.generation.store(
        (place.generation.load(std::memory_order_relaxed) + 1) & ((1U << kGenerationBits) - 1),
        std::memory_order_relaxed);
    place.next = std::exchange(free_, index);
    return object;
  }
  /// The object of a handle; nullptr: none such (freed, null, or never made).
  [[nodiscard]] T* find(Handle handle) const noexcept {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    if (value < kFirstOwn) return predefined_[value].load(std::memory_order_acquire);
    const uintptr_t index = (value >> kGenerationBits) - 1;
    if (index >= kChunks * kChunk) return nullptr;
    const Place* place = this->place(static_cast<uint32_t>(index));
    if (place == nullptr || place->generation.load(std::memory_order_relaxed) !=
                                (value & ((1U << kGenerationBits) - 1))) {
      return nullptr;
    }
    return place->object.load(std::memory_order_acquire);
  }
  /// The same, held: for who does not call for the handle's owner, who may free it meanwhile.
  [[nodiscard]] Held<T> hold(Handle handle) {
    const std::scoped_lock guard(lock_);  // whoever removes it drops it after that
    return Held<T>(find(handle));
  }
  /// Calls `each(handle, object, made_at)` for those that were added and not removed: leaks, at the
  /// end. `made_at`: see program_call.
  template <class Each>
  void for_each(Each each) {
    for (uint32_t i = 0; i < used_; ++i) {
      Place& place = *this->place(i);
      if (T* object = place.object.load(std::memory_order_acquire); object != nullptr) {
        each(name(i, place.generation.load(std::memory_order_relaxed)), object,
             place.made_at.load(std::memory_order_relaxed));
      }
    }
  }

 private:
  static constexpr uint32_t kChunk = 1024;
  static constexpr uint32_t kChunks = 511;  // indices below 2^19: handles fit an int
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Place {
    std::atomic<T*> object{nullptr};
    std::atomic<uint32_t> generation{0};
    std::atomic<const void*> made_at{nullptr};
    uint32_t next = kNone;  ///< of those that are free
  };
  [[nodiscard]] Place* place(uint32_t index) const noexcept {
    Place* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : chunk + index % kChunk;
  }
  static Handle name(uint32_t index, uint32_t generation) noexcept {
    return reinterpret_cast<Handle>((uintptr_t{index} + 1) << kGenerationBits | generation);
  }

  std::array<std::atomic<T*>, kFirstOwn> predefined_{};
  mutable std::array<std::atomic<Place*>, kChunks> chunks_{};
  std::mutex lock_;
  uint32_t free_ = kNone;  ///< the first of those that were removed
  uint32_t used_ = 0;
};

}  // namespace weft::mpi
