// What the network's transport receives into, and how much it does at a time: the strategies of
// fabric.ofi.receive, and the caps of a step, each beside the usual.
//
// Measured, over libfabric's loopback, frames of the transport without the message core above:
// 1. By strategy and mix of sizes: messages per second from rank 0's first send until rank 1 has
//    taken the last, in one direction, as fast as packets (32) and credit let it. `short`: 64
//    bytes, no packet; `eager`: packets of 8 KiB; `large`: of 64 KiB; `mixed`: 15 short, then a
//    large one. `bytes_per_second` is their payload. `resident` is what rank 1's memory (VmRSS)
//    grew by from before a transport of its own was made until that mix was received for the first
//    time: the 32 packets' places, queues and the provider's memory are in it, alike for all.
// 2. By caps: half a round trip of 64 bytes between ports 1, in ns, while both ranks send each
//    other packets of 64 KiB between ports 0 without pause, one thread of each rank polling both in
//    turn. `bulk_bytes_per_second` is what those packets brought meanwhile, one way.
//
// Limit: the same turn by turn with `single`, or without caps: what there was before.
//
// It lies where the ranks share a core, and where loopback is unlike the network that is meant: it
// copies within one kernel, and loses nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/benches.hpp"
#include "harness/contest.hpp"
#include "harness/machine.hpp"
#include "harness/pair.hpp"
#include "harness/process.hpp"
#include "harness/result.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::bench {
namespace {

constexpr uint32_t kPackets = 32;
constexpr uint32_t kPacketBytes = 64 << 10;
constexpr std::size_t kShortBytes = 64;
constexpr uint32_t kBudget = 64;

struct ReceiveWay {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;
};

struct Mix {
  std::string name;
  uint32_t messages;      ///< of a turn
  uint32_t packet_bytes;  ///< of those that have a packet
  uint32_t of_which;      ///< one of so many has; 0: none
};

/// A transport with open ports, made with a way's settings, by both ranks together.
class Line final : public fabric::Sink {
 public:
  Line(Pair& pair, const ReceiveWay& way, uint32_t ports)
      : peer_(pair.peer()), job_(make_yard_job(pair.yard(), pair.job())) {
    fabric::register_fabric_config();
    std::vector<std::string> before;
    for (const auto& [key, value] : way.settings) {
      before.push_back(base::config_text(key));
      base::set_config(key, value);
    }
    transport_ = fabric::make_ofi_transport(*job_, {ports, 256, 64, kPacketBytes, kPackets});
    for (std::size_t i = 0; i < before.size(); ++i)
      base::set_config(way.settings[i].first, before[i]);
    for (uint32_t i = 0; i < ports; ++i) ports_.push_back(transport_->open_port(i));
    for (uint32_t i = 0; i < kPackets; ++i) free_.push_back(i);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  ~Line() = default;

  bool send_short(uint32_t port) {
    return ports_[port]->try_send(peer_, port, out_, {}) == Post::done;
  }
  bool send_packet(uint32_t port, uint32_t bytes) {
    if (free_.empty()) return false;
    if (ports_[port]->try_send_packet(peer_, port, std::span(out_).first(8),
                                      {free_.back(), bytes}) != Post::posted)
      return false;
    free_.pop_back();
    return true;
  }
  /// Port by port; gives the core away now and then, should both ranks share it.
  void poll() {
    uint32_t taken = 0;
    for (const auto& port : ports_) {
      polled_ = port.get();
      taken += port->poll(*this, kBudget);
    }
    if (taken == 0 && ++empty_ % 4096 == 0) yield_core();
  }
  [[nodiscard]] uint64_t shorts() const noexcept { return shorts_; }
  [[nodiscard]] uint64_t packets() const noexcept { return packets_; }
  [[nodiscard]] bool has_all_packets() const noexcept { return free_.size() == kPackets; }

  fabric::Taken on_frame(const fabric::Frame& frame) override {
    if (frame.loan) {
      ++packets_;
      polled_->give_back(frame.loan);
    } else {
      ++shorts_;
    }
    return fabric::Taken::yes;
  }
  void on_control(const fabric::Frame&) override {}
  void on_returned(std::span<const uint32_t> packets) override {
    free_.insert(free_.end(), packets.begin(), packets.end());
  }
  void on_peer_down(Rank, std::string_view cause) override {
    throw std::runtime_error(std::string(cause));
  }

 private:
  Rank peer_;
  std::unique_ptr<fabric::Job> job_;
  std::unique_ptr<fabric::Transport> transport_;
  std::vector<std::unique_ptr<fabric::Port>> ports_;
  fabric::Port* polled_ = nullptr;
  std::vector<uint32_t> free_;
  std::array<std::byte, kShortBytes> out_{};
  uint64_t shorts_ = 0, packets_ = 0;
  unsigned empty_ = 0;
};

/// Messages per second; on rank 1, 0.
double stream(Pair& pair, Line& line, const Mix& mix) {
  auto& taken = pair.yard().memory().note[0].value;
  if (pair.leads()) taken.store(0, std::memory_order_relaxed);  // the meeting publishes it
  pair.meet();
  if (!pair.leads()) {
    const uint64_t until = line.shorts() + line.packets() + mix.messages;
    while (line.shorts() + line.packets() < until) line.poll();
    taken.store(1, std::memory_order_release);  // pairs with the acquire below: the turn's end
    while (taken.load(std::memory_order_acquire) != 2) line.poll();
    return 0;
  }
  const uint64_t start = base::now_ns();
  for (uint32_t i = 0; i < mix.messages; ++i) {
    const bool has_packet = mix.of_which != 0 && i % mix.of_which == mix.of_which - 1;
    while (!(has_packet ? line.send_packet(0, mix.packet_bytes) : line.send_short(0))) line.poll();
  }
  // acquire: pairs with the release above.
  while (taken.load(std::memory_order_acquire) == 0) line.poll();
  const uint64_t end = base::now_ns();
  while (!line.has_all_packets()) line.poll();
  taken.store(2, std::memory_order_release);
  return mix.messages * 1e9 / static_cast<double>(end - start);
}

double bytes_of(const Mix& mix) {
  const double packets = mix.of_which == 0 ? 0 : 1.0 / mix.of_which;
  return packets * mix.packet_bytes + (1 - packets) * kShortBytes;
}

/// Bytes by which rank 1 grew.
double growth(Pair& pair, const ReceiveWay& way, const Mix& mix) {
  pair.meet();
  const std::size_t before = resident_bytes();
  Line line(pair, way, 1);
  stream(pair, line, mix);
  const std::size_t after = resident_bytes();
  const uint64_t grown = pair.yard().trade(after > before ? after - before : 0);
  return static_cast<double>(grown);
}

/// One line for each way beside the first, and for that alone; `add` puts more into it.
template <class Add>
void print_beside_first(Pair& pair, const Options& options, const Result& form,
                        const std::vector<Contestant>& contestants,
                        const std::vector<Round>& rounds, Add add) {
  if (!pair.leads()) return;
  for (std::size_t who = 0; who < contestants.size(); ++who) {
    std::vector<Contestant> two{contestants[who]};
    if (who != 0) two.push_back(contestants[0]);
    std::vector<Round> theirs;
    for (const Round& round : rounds) {
      theirs.push_back({round.state, {round.readings[who]}});
      if (who != 0) theirs.back().readings.push_back(round.readings[0]);
    }
    Result mine = form;
    mine.mode += "_" + contestants[who].name;
    for (auto result : settle(mine, two, theirs)) {
      if (!pair.bound_apart()) result.verdict = "no verdict: the ranks are not bound to cores";
      result.extra["security"] = security_mode();
      add(result, who);
      print(result, options.json);
    }
  }
}

void compare_strategies(Pair& pair, const Options& options) {
  const std::vector<ReceiveWay> ways = {
      {"single", {{"fabric.ofi.receive", "single"}}},
      {"single_16", {{"fabric.ofi.receive", "single"}, {"fabric.ofi.receives", "16"}}},
      {"multi", {{"fabric.ofi.receive", "multi"}}},
      {"sized", {{"fabric.ofi.receive", "sized"}}}};
  const Mix mixes[] = {{"short", 20'000, 0, 0},
                       {"eager", 2000, 8192, 1},
                       {"large", 400, kPacketBytes, 1},
                       {"mixed", 6400, kPacketBytes, 16}};
  growth(pair, ways[0], mixes[0]);         // loads libfabric, whose own memory is no strategy's
  std::vector<std::vector<double>> grown;  // before anything else touched memory
  for (const Mix& mix : mixes) {
    grown.emplace_back();
    for (const ReceiveWay& way : ways) grown.back().push_back(growth(pair, way, mix));
  }
  std::vector<std::unique_ptr<Line>> lines;
  for (const ReceiveWay& way : ways) lines.push_back(std::make_unique<Line>(pair, way, 1));
  for (std::size_t m = 0; m < std::size(mixes); ++m) {
    const Mix& mix = mixes[m];
    std::vector<Contestant> contestants;
    for (std::size_t w = 0; w < ways.size(); ++w)
      contestants.push_back(
          {ways[w].name, [&, w] { return Reading{stream(pair, *lines[w], mix)}; }});
    const auto rounds = run_contest(pair, contestants, options.seconds);
    Result form = figure("receives", mix.name, "/s", Better::higher);
    form.size_bytes = mix.of_which == 0 ? kShortBytes : mix.packet_bytes;
    print_beside_first(pair, options, form, contestants, rounds,
                       [&](Result& result, std::size_t w) {
                         result.extra["bytes_per_second"] = result.value.median * bytes_of(mix);
                         result.extra["resident"] = grown[m][w];
                       });
  }
  pair.meet();
}

/// Half a round trip of short frames beside bulk both ways, in ns; `bulk`: bytes per second of it.
double beside_bulk(Pair& pair, Line& line, std::vector<double>& bulk) {
  constexpr uint64_t kRounds = 40;
  auto& ended = pair.yard().memory().note[0].value;
  if (pair.leads()) ended.store(0, std::memory_order_relaxed);  // the meeting publishes it
  pair.meet();
  const uint64_t before = line.packets(), start = base::now_ns();
  const uint64_t first = line.shorts();
  std::vector<double> laps;
  uint64_t sent = 0, sent_ns = 0;
  // relaxed: whether to go on; the meeting at the end orders the rest.
  const auto is_over = [&] { return ended.load(std::memory_order_relaxed) != 0; };
  while (!is_over()) {
    while (line.send_packet(0, kPacketBytes)) {
    }
    line.poll();
    const uint64_t came = line.shorts() - first;
    const bool is_due = pair.leads() ? came == sent : came == sent + 1;
    if (!is_due) continue;
    const uint64_t now = base::now_ns();
    if (pair.leads() && sent != 0) laps.push_back(static_cast<double>(now - sent_ns) / 2);
    if (pair.leads() && sent == kRounds) {
      ended.store(1, std::memory_order_relaxed);
      break;
    }
    while (!line.send_short(1)) line.poll();
    sent_ns = now;
    ++sent;
  }
  const double seconds = static_cast<double>(base::now_ns() - start) / 1e9;
  bulk.push_back(static_cast<double>(line.packets() - before) * kPacketBytes / seconds);
  // Until both have all of their packets back.
  auto& idle = pair.yard().memory().note[1 + static_cast<std::size_t>(pair.rank())].value;
  auto& theirs = pair.yard().memory().note[2 - static_cast<std::size_t>(pair.rank())].value;
  while (!line.has_all_packets()) line.poll();
  idle.store(1, std::memory_order_release);  // pairs with the other's acquire
  while (theirs.load(std::memory_order_acquire) == 0) line.poll();
  pair.meet();
  idle.store(0, std::memory_order_relaxed);  // looked at after the next meeting
  pair.meet();
  return summarize(laps).median;
}

void compare_caps(Pair& pair, const Options& options) {
  const std::vector<ReceiveWay> ways = {{"usual", {}},
                                        {"receive_all", {{"fabric.ofi.step_receives", "0"}}},
                                        {"receive_4", {{"fabric.ofi.step_receives", "4"}}},
                                        {"send_4", {{"fabric.ofi.step_sends", "4"}}},
                                        {"under_way_4", {{"fabric.ofi.under_way", "4"}}},
                                        {"restrained",
                                         {{"fabric.ofi.step_receives", "4"},
                                          {"fabric.ofi.step_sends", "4"},
                                          {"fabric.ofi.under_way", "4"}}}};
  std::vector<std::unique_ptr<Line>> lines;
  for (const ReceiveWay& way : ways) lines.push_back(std::make_unique<Line>(pair, way, 2));
  std::vector<std::vector<double>> bulk(ways.size());
  std::vector<Contestant> contestants;
  for (std::size_t w = 0; w < ways.size(); ++w)
    contestants.push_back(
        {ways[w].name, [&, w] { return Reading{beside_bulk(pair, *lines[w], bulk[w])}; }});
  const auto rounds = run_contest(pair, contestants, options.seconds);
  const Result form = figure("receives", "beside_bulk", "ns", Better::lower);
  print_beside_first(pair, options, form, contestants, rounds, [&](Result& result, std::size_t w) {
    result.extra["bulk_bytes_per_second"] = summarize(bulk[w]).median;
  });
  pair.meet();
}

}  // namespace

int run_receives(const Options& options) {
  Pair pair;
  compare_strategies(pair, options);
  compare_caps(pair, options);
  return 0;
}

}  // namespace weft::bench
