// What a scheduler tells of its tasks: a line each, and where those that wait are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/frames.hpp"
#include "task/scheduler_impl.hpp"
#include "task/symbols.hpp"
#include "task/worker.hpp"

namespace weft::task {

using detail::Record;
using detail::Status;

namespace {

constexpr std::size_t kLines = 1000;   ///< of more tasks, counts are told
constexpr std::size_t kPlaces = 1024;  ///< different ones, counted
constexpr unsigned kWalked = 12;       ///< calls of a stack, the scheduler's own included
constexpr unsigned kShown = 6;
constexpr std::size_t kLongestName = 160;

enum class State : uint8_t { fresh, runs, runs_signalled, above, waits, ended, count };

std::string_view to_string(State state) {
  switch (state) {
    case State::fresh:
      return "not started";
    case State::runs:
      return "runs";
    case State::runs_signalled:
      return "runs, signalled";
    case State::above:
      return "waits for a child that it runs in place";
    case State::waits:
      return "waits";
    case State::ended:
      return "ended, not joined";
    case State::count:
      break;
  }
  return "";
}

struct Calls {
  std::array<void*, kWalked> address{};
  unsigned count = 0;
  [[nodiscard]] std::span<void* const> list() const { return {address.data(), count}; }
  bool operator==(const Calls&) const = default;
};

/// A copy: once the guard is left, the task may end, and its name with it.
struct Name {
  static constexpr std::size_t kRoom = 48;
  Name() = default;
  explicit Name(const char* name) noexcept : is_given(name != nullptr) {
    if (!is_given) return;
    while (length < kRoom && name[length] != '\0') {
      text[length] = name[length];
      ++length;
    }
    is_cut = length == kRoom && name[length] != '\0';
  }
  char text[kRoom];
  uint8_t length = 0;
  bool is_given = false;
  bool is_cut = false;
};

struct Line {
  int worker = 0;
  uint32_t index = 0;
  State state = State::fresh;
  Name name;
  Calls calls;
};

/// Takes no memory once it is made: it is filled under the guards of workers.
class Survey {
 public:
  Survey() : places_(kPlaces) { lines_.reserve(kLines); }

  void add(int worker, const Record& record, Status status, bool worker_sleeps) noexcept {
    Line line{.worker = worker,
              .index = record.index(),
              .state = state_of(record, status, worker_sleeps),
              .name = {},
              .calls = {}};
    ++counts_[static_cast<std::size_t>(line.state)];
    if (line.state == State::waits) {
      // It is not claimed while its home's guard is held, so nobody runs on its stack.
      auto& stack = *static_cast<Stack*>(record.stack);
      line.calls.count = calls_on(stack, line.calls.address.data(), kWalked);
      count_place(line.calls);
    }
    if (lines_.size() == kLines) return;
    line.name = Name(record.name.load(std::memory_order_relaxed));
    lines_.push_back(line);
  }
  [[nodiscard]] std::string text() const;

 private:
  struct Place {
    Calls calls;
    uint64_t tasks = 0;
  };

  static State state_of(const Record& record, Status status, bool worker_sleeps) noexcept {
    if (record.has_ended()) return State::ended;
    switch (status) {
      case Status::fresh:
      case Status::free:
        return State::fresh;
      case Status::waiting:
        return State::waits;
      case Status::home:
      case Status::away:
        return worker_sleeps ? State::above : State::runs;
      case Status::home_signalled:
      case Status::away_signalled:
        return worker_sleeps ? State::above : State::runs_signalled;
    }
    return State::runs;
  }
  void count_place(const Calls& calls) noexcept {
    uint64_t hash = calls.count;
    for (void* address : calls.list()) {
      hash = (hash ^ reinterpret_cast<uintptr_t>(address)) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 29;
    }
    for (std::size_t look = 0; look < kPlaces; ++look) {
      Place& place = places_[(hash + look) % kPlaces];
      if (place.tasks == 0) place.calls = calls;
      if (place.calls == calls) {
        ++place.tasks;
        return;
      }
    }
    ++elsewhere_;
  }
  [[nodiscard]] std::string places_text(Symbols& symbols) const;

  std::array<uint64_t, static_cast<std::size_t>(State::count)> counts_{};
  std::vector<Line> lines_;
  std::vector<Place> places_;
  uint64_t elsewhere_ = 0;
};

/// What is between the outermost brackets of `name`, if it begins so; else "".
std::string_view argument_of(std::string_view name, std::string_view begins) {
  const std::size_t at = name.find(begins);
  const std::size_t end = name.rfind('>');
  if (at == std::string_view::npos || end == std::string_view::npos) return {};
  return name.substr(at + begins.size(), end - at - begins.size());
}

/// The function that the task was spawned with, if that is the `name` of what calls it.
std::string_view function_of_task(std::string_view name) {
  const std::string_view boxed = argument_of(name, "weft::task::detail::run_boxed<");
  const std::string_view child = argument_of(boxed, "weft::task::Group::Child<");
  return child.empty() ? boxed : child;
}

/// "Mutex::lock, called by f, called by g": without the scheduler's own calls, at either end.
std::string text_of(const Calls& calls, Symbols& symbols) {
  std::string text;
  unsigned shown = 0;
  const auto show = [&](std::string_view name) {
    const bool is_whole = name.size() <= kLongestName;
    text += fmt::format("{}{}{}", shown == 0 ? "" : ", called by ", name.substr(0, kLongestName),
                        is_whole ? "" : "...");
    ++shown;
  };
  for (void* address : calls.list()) {
    // The address is where the call returns to, which may be the next function's begin.
    const std::string name = symbols.name(static_cast<const char*>(address) - 1);
    if (name.empty() || shown == kShown) break;
    if (const std::string_view function = function_of_task(name); !function.empty()) {
      // Unless it was shown already: mostly it is part of what calls it.
      if (text.find(function) == std::string::npos) show(function);
      break;
    }
    const bool is_inner = name.starts_with("weft::task::detail::Worker::") ||
                          name.starts_with("weft::task::detail::Record::");
    if (is_inner && shown != 0) break;
    if (!is_inner) show(name);
  }
  return text;
}

std::string Survey::places_text(Symbols& symbols) const {
  std::map<std::string, uint64_t> by_text;
  for (const Place& place : places_) {
    if (place.tasks != 0) by_text[text_of(place.calls, symbols)] += place.tasks;
  }
  std::vector<std::pair<uint64_t, std::string_view>> sorted;
  for (const auto& [where, tasks] : by_text) sorted.emplace_back(tasks, where);
  std::ranges::sort(sorted, std::greater<>{});
  std::string text;
  for (const auto& [tasks, where] : sorted) {
    text += fmt::format("  {} wait in {}\n", tasks, where.empty() ? "?" : where);
  }
  if (elsewhere_ != 0) text += fmt::format("  {} wait elsewhere\n", elsewhere_);
  return text;
}

std::string Survey::text() const {
  uint64_t all = 0;
  std::string text;
  for (std::size_t state = 0; state < counts_.size(); ++state) {
    if (counts_[state] == 0) continue;
    all += counts_[state];
    text += fmt::format("{} {}: {}", text.empty() ? "" : ";", to_string(static_cast<State>(state)),
                        counts_[state]);
  }
  text = fmt::format("{} tasks{}{}\n", all, all != 0 ? ":" : "", text);
  Symbols symbols;
  for (const Line& line : lines_) {
    const std::string where = text_of(line.calls, symbols);
    const std::string_view name(line.name.text, line.name.length);
    text += fmt::format("  task {}.{} '{}{}': {}{}{}\n", line.worker, line.index,
                        line.name.is_given ? name : "unnamed", line.name.is_cut ? "..." : "",
                        to_string(line.state), where.empty() ? "" : " in ", where);
  }
  if (all > lines_.size()) {
    text += fmt::format("  and {} more; of all of them:\n", all - lines_.size());
    text += places_text(symbols);
  }
  return text;
}

}  // namespace

std::string Scheduler::Impl::dump() {
  Survey survey;
  const bool all_sleep = is_quiet();
  for (auto& worker : workers) {
    const bool sleeps = all_sleep || worker->mode() == detail::Mode::asleep;
    worker->for_each_record([&](const Record& record) {
      // acquire: pairs with the release that published `waiting`; the saved context is seen.
      const Status status = record.status.load(std::memory_order_acquire);
      if (status == Status::free) return;
      const bool is_away = status == Status::away || status == Status::away_signalled;
      survey.add(worker->number(), record, status, is_away ? all_sleep : sleeps);
    });
  }
  return survey.text();
}

std::string Scheduler::dump() const { return impl_->dump(); }

}  // namespace weft::task
