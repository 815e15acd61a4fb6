// Everything that a small model can do: all interleavings of its threads' steps, each state once.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace weft::test {

/// What a search found.
struct Explored {
  std::string broken;  ///< what is wrong in the state that it ends in; empty: nothing ever is
  std::string story;   ///< the steps to that state, a line each
  std::size_t states = 0;
};

/// Looks at every state that `Model` can reach, nearest first, so that the story of a mistake is a
/// shortest one. Steps are atomic and one after the other: a sequentially consistent machine.
///
/// A model has: `State`, without padding; `start()`; `choices(state, thread)`, how many different
/// steps the thread may take now (0: it waits); `step(state, thread, choice, tale)`, which takes
/// one and, if `tale` is not nullptr, says in a few words what it was; `broken(state)`, what is
/// wrong in any state; `unfinished(state)`, what is missing in a last one. Both answer nullptr for
/// "nothing".
///
/// Wrong is, too, a state from which no good last state can be reached any more: who spins for ever
/// has lost what he waits for just as one who sleeps.
template <class Model>
class Explorer {
  using State = typename Model::State;
  static_assert(std::has_unique_object_representations_v<State>, "states are compared as bytes");

 public:
  explicit Explorer(const Model& model, std::size_t most_states = 3'000'000)
      : model_(model), most_(most_states), table_(std::size_t{1} << 12, kNobody) {}

  Explored run() {
    find_or_add(model_.start(), {});
    for (std::size_t at = 0; at < states_.size(); ++at) {
      if (states_.size() > most_) return {"more states than were expected", "", states_.size()};
      if (const char* broken = model_.broken(states_[at])) return ends_in(at, broken);
      if (visit(at)) continue;
      const char* unfinished = model_.unfinished(states_[at]);
      if (unfinished != nullptr) return ends_in(at, unfinished);
      good_.push_back(static_cast<uint32_t>(at));
    }
    if (const uint32_t lost = first_doomed(); lost != kNobody) {
      return ends_in(lost, "from here on no good end can be reached");
    }
    return {"", "", states_.size()};
  }

 private:
  static constexpr uint32_t kNobody = ~uint32_t{0};
  struct Way {
    uint32_t from = kNobody;
    uint16_t thread = 0;
    uint16_t choice = 0;
  };
  struct Edge {
    uint32_t from;
    uint32_t to;
  };

  /// Takes every step that can be taken there; false: there is none.
  bool visit(std::size_t at) {
    bool any = false;
    for (int thread = 0; thread < model_.threads(); ++thread) {
      const unsigned choices = model_.choices(states_[at], thread);
      for (unsigned choice = 0; choice < choices; ++choice) {
        State next = states_[at];
        model_.step(next, thread, choice, nullptr);
        const auto from = static_cast<uint32_t>(at);
        const uint32_t to =
            find_or_add(next, {from, static_cast<uint16_t>(thread), static_cast<uint16_t>(choice)});
        edges_.push_back({from, to});
        any = true;
      }
    }
    return any;
  }

  static std::size_t hash(const State& state) noexcept {
    uint64_t words[(sizeof(State) + 7) / 8] = {};
    std::memcpy(words, &state, sizeof(State));
    uint64_t mixed = 0;
    for (const uint64_t word : words) {
      mixed = (mixed ^ word) * 0x9e3779b97f4a7c15ULL;
      mixed ^= mixed >> 32;
    }
    return mixed;
  }
  uint32_t find_or_add(const State& state, Way way) {
    if (states_.size() * 2 > table_.size()) grow();
    std::size_t at = hash(state) & (table_.size() - 1);
    for (; table_[at] != kNobody; at = (at + 1) & (table_.size() - 1)) {
      if (std::memcmp(&states_[table_[at]], &state, sizeof(State)) == 0) return table_[at];
    }
    table_[at] = static_cast<uint32_t>(states_.size());
    states_.push_back(state);
    ways_.push_back(way);
    return table_[at];
  }
  void grow() {
    table_.assign(table_.size() * 2, kNobody);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      std::size_t at = hash(states_[i]) & (table_.size() - 1);
      while (table_[at] != kNobody) at = (at + 1) & (table_.size() - 1);
      table_[at] = static_cast<uint32_t>(i);
    }
  }

  /// The nearest state from which no good end can be reached, or kNobody: goes back from all good
  /// ends, edge by edge.
  [[nodiscard]] uint32_t first_doomed() const {
    std::vector<uint32_t> begin(states_.size() + 1, 0);
    for (const Edge& edge : edges_) ++begin[edge.to + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    std::vector<uint32_t> before(edges_.size());
    std::vector<uint32_t> filled(begin.begin(), begin.end() - 1);
    for (const Edge& edge : edges_) before[filled[edge.to]++] = edge.from;
    std::vector<bool> hopeful(states_.size(), false);
    std::vector<uint32_t> todo = good_;
    for (const uint32_t end : good_) hopeful[end] = true;
    while (!todo.empty()) {
      const uint32_t at = todo.back();
      todo.pop_back();
      for (uint32_t i = begin[at]; i < begin[at + 1]; ++i) {
        if (hopeful[before[i]]) continue;
        hopeful[before[i]] = true;
        todo.push_back(before[i]);
      }
    }
    for (std::size_t i = 0; i < hopeful.size(); ++i) {
      if (!hopeful[i]) return static_cast<uint32_t>(i);
    }
    return kNobody;
  }

  [[nodiscard]] Explored ends_in(std::size_t at, const char* broken) const {
    std::vector<Way> path;
    for (Way way = ways_[at]; way.from != kNobody; way = ways_[way.from]) path.push_back(way);
    std::string story;
    State state = model_.start();
    for (auto way = path.rbegin(); way != path.rend(); ++way) {
      std::string tale;
      model_.step(state, way->thread, way->choice, &tale);
      story += "  " + tale + "\n";
    }
    return {broken, story + model_.describe(state), states_.size()};
  }

  const Model& model_;
  const std::size_t most_;
  std::vector<State> states_;
  std::vector<Way> ways_;        ///< how each was first reached
  std::vector<uint32_t> table_;  ///< open addressing: indices of states
  std::vector<Edge> edges_;
  std::vector<uint32_t> good_;
};

template <class Model>
Explored explore(const Model& model) {
  return Explorer<Model>(model).run();
}

}  // namespace weft::test
