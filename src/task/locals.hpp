// The values that one task, or thread, has of TaskLocals.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/task/record.hpp"
#include "weft/task/task_local.hpp"

namespace weft::task::detail {

/// A short list: few tasks have more than a few. Its owner's alone.
class Locals {
 public:
  Locals() = default;
  ~Locals() { clear(); }
  Locals(const Locals&) = delete;
  Locals& operator=(const Locals&) = delete;

  /// Newest first; a destructor may make another value.
  void clear() noexcept {
    while (!values_.empty()) {
      const Value last = values_.back();
      values_.pop_back();
      last.destroy(last.value);
    }
  }
  [[nodiscard]] void* find(uint32_t key) const noexcept {
    for (const Value& each : values_) {
      if (each.key == key) return each.value;
    }
    return nullptr;
  }
  void add(uint32_t key, void* value, DestroyLocal destroy) {
    values_.push_back({key, value, destroy});
  }

 private:
  struct Value {
    uint32_t key;
    void* value;
    DestroyLocal destroy;
  };
  std::vector<Value> values_;
};

/// The task has run: its values end with it, still as its own.
void end_locals(Record& record) noexcept;

}  // namespace weft::task::detail
