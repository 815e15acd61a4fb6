// Decides whether what threads saw of one key of a MatchTable can be explained by some order of
// their operations: an exhaustive search (Wing and Gong), with a memory of states seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/match_table.hpp"

namespace weft::comm::testing {

/// One operation as its thread saw it. `called` and `returned` are instants of one clock.
struct MatchOp {
  enum class Kind : uint8_t { access, take, remove } kind;
  Side side;
  uint64_t value;   ///< of access and remove
  uint64_t answer;  ///< 0/1 of remove
  uint64_t called;
  uint64_t returned;
};

/// What one key of the table is meant to be: a queue of entries of one side.
class KeyModel {
 public:
  uint64_t apply(const MatchOp& op) {
    const bool other = !values_.empty() && side_ != op.side;
    switch (op.kind) {
      case MatchOp::Kind::take:
        return other ? pop() : 0;
      case MatchOp::Kind::access:
        if (other) return pop();
        side_ = op.side;
        values_.push_back(op.value);
        return 0;
      case MatchOp::Kind::remove:
        if (other || values_.empty()) return 0;
        for (auto at = values_.begin(); at != values_.end(); ++at) {
          if (*at != op.value) continue;
          values_.erase(at);
          return 1;
        }
        return 0;
    }
    return 0;
  }
  friend auto operator<=>(const KeyModel&, const KeyModel&) = default;

 private:
  uint64_t pop() {
    const uint64_t value = values_.front();
    values_.erase(values_.begin());
    if (values_.empty()) side_ = Side::arrival;  // one representation of "empty"
    return value;
  }
  Side side_ = Side::arrival;
  std::vector<uint64_t> values_;
};

class HistoryChecker {
 public:
  /// At most 64 operations on one key, which was empty before.
  explicit HistoryChecker(std::vector<MatchOp> ops) : ops_(std::move(ops)) {}

  [[nodiscard]] bool linearizable() { return explain(0, KeyModel{}); }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& op : ops_) {
      out += op.kind == MatchOp::Kind::access ? "access"
             : op.kind == MatchOp::Kind::take ? "take"
                                              : "remove";
      out += op.side == Side::arrival ? "(arrival, " : "(receive, ";
      out += std::to_string(op.value) + ") = " + std::to_string(op.answer) + "  [" +
             std::to_string(op.called) + ", " + std::to_string(op.returned) + "]\n";
    }
    return out;
  }

 private:
  bool explain(uint64_t done, const KeyModel& model) {
    if (done == (ops_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << ops_.size()) - 1)) return true;
    if (!seen_.emplace(done, model).second) return false;
    uint64_t first_return = ~uint64_t{0};
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if ((done >> i & 1) == 0) first_return = std::min(first_return, ops_[i].returned);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      // It cannot come next if another had returned before it was called.
      if ((done >> i & 1) != 0 || ops_[i].called > first_return) continue;
      KeyModel next = model;
      if (next.apply(ops_[i]) == ops_[i].answer && explain(done | uint64_t{1} << i, next))
        return true;
    }
    return false;
  }

  const std::vector<MatchOp> ops_;
  std::set<std::pair<uint64_t, KeyModel>> seen_;
};

}  // namespace weft::comm::testing
