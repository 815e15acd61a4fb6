// latency --explain: where the time of an 8-byte matched message goes (000 Table 5.2).
//
// Measured, all in one run, turn by turn: the whole (one-way latency of a matched message, polling,
// as `latency` measures it), and its parts alone: `transfer`, a ping-pong of frames of the same
// size over a transport port of its own, with no comm above it; `matching`, one insert and one take
// of the matching table; `pool`, taking and returning one operation's record; `completion`, telling
// a flag, reading it and clearing it; each in ns, medians of laps. The figure's limit is the sum of
// the parts.
//
// Beside them, outside the sum: the same message between two tasks that block for it, one worker a
// rank (`whole_of_tasks`), and what a task's wake-up alone costs: `wake_up_in_place`, a signal to a
// task that still looks on from its own stack, kept and consumed; `wake_up_suspended`, half a round
// of signal and wait between two tasks of a worker, which switch.
//
// It lies where parts overlap: a receive is posted while its message is still under way, so that
// half of the matching may cost nothing in the whole; and tables used alone are warmer.
#include <cstring>

#include "comm/benches.hpp"
#include "comm/match_table.hpp"
#include "comm/operation.hpp"
#include "comm/ping_pong.hpp"
#include "harness/laps.hpp"
#include "weft/fabric/config.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench {
namespace {

constexpr unsigned kTrips = 20000;
constexpr unsigned kCalls = 96000;  // whole rounds of the tables' keys

// A port of a transport of our own between the two ranks.
class RawPort final : public fabric::Sink {
 public:
  RawPort(Pair& pair, std::size_t bytes)
      : pair_(pair),
        job_(make_yard_job(pair.yard(), pair.job())),
        transport_(fabric::make_shm_transport(*job_, fabric::default_geometry())),
        port_(transport_->open_port(0)),
        payload_(bytes) {
    pair.meet();
  }

  double one_way_ns() {
    Laps laps(32);
    laps.start();
    for (unsigned i = 0; i < kTrips; ++i) {
      if (pair_.leads()) send();
      const uint64_t expected = seen_ + 1;
      spin_until([&] {
        port_->poll(*this, 16);
        return seen_ == expected;
      });
      if (!pair_.leads()) send();
      laps.count();
    }
    return laps.median_ns() / 2;
  }

  fabric::Taken on_short(Rank /*source*/, fabric::ShortHeader /*header*/,
                         std::span<const std::byte> payload) override {
    std::memcpy(payload_.data(), payload.data(), payload_.size());
    ++seen_;
    return fabric::Taken::yes;
  }
  fabric::Taken on_frame(const fabric::Frame& frame) override {
    std::memcpy(payload_.data(), frame.head.data() + sizeof(comm::Header), payload_.size());
    ++seen_;
    return fabric::Taken::yes;
  }
  void on_control(const fabric::Frame&) override {}
  void on_returned(std::span<const uint32_t>) override {}
  void on_peer_down(Rank, std::string_view) override {}

 private:
  void send() {
    const comm::Header header{.type = comm::PacketType::eager};
    while (port_->try_send_short({pair_.peer(), 0}, comm::pack(header), payload_) == Post::retry) {
    }
  }
  Pair& pair_;
  std::unique_ptr<fabric::Job> job_;
  std::unique_ptr<fabric::Transport> transport_;
  std::unique_ptr<fabric::Port> port_;
  std::vector<std::byte> payload_;
  uint64_t seen_ = 0;
};

// Sixteen inserts, then sixteen takes: as between messages, no access waits for the last one's
// store.
double matching_ns(comm::MatchTable& table) {
  constexpr unsigned kKeys = 16;
  const double access_ns = median_call_ns(kCalls, [&](unsigned i) {
    const uint64_t key = 1 + i % kKeys;
    const bool inserts = i / kKeys % 2 == 0;
    const uint64_t met = inserts ? table.access(key, comm::Side::receive, key)
                                 : table.take(key, comm::Side::arrival);
    if (met != (inserts ? 0 : key)) throw std::runtime_error("explain: an entry was lost");
  });
  return 2 * access_ns;
}

double pool_ns(comm::OperationTable& table) {
  return median_call_ns(kCalls, [&](unsigned) {
    comm::Operation* op = table.allocate();
    asm volatile("" : "+r"(op));
    table.release_post(*op);
  });
}

double completion_ns() {
  Synchronizer done;  // as the whole waits for
  Completion* completion = &done;
  asm volatile("" : "+r"(completion));  // told through the interface, as progress does
  return median_call_ns(kCalls, [&](unsigned i) {
    completion->complete_many({.bytes = i}, 1);
    if (!done.ready()) throw std::runtime_error("explain: the synchronizer was not told");
    done.reset(1);
  });
}

double task_one_way_ns(Pair& pair, Endpoint& endpoint, std::size_t bytes) {
  task::Scheduler scheduler({.workers = 1});
  pair.meet();
  return scheduler.run([&] {
    std::vector<std::byte> buffer(bytes);
    Laps laps(32);
    laps.start();
    for (unsigned i = 0; i < kTrips; ++i) {
      if (pair.leads()) expect_ok(endpoint.send_wait(pair.peer(), Tag{0}, buffer).error, "send");
      expect_ok(endpoint.recv_wait(pair.peer(), Tag{0}, buffer).error, "receive");
      if (!pair.leads()) expect_ok(endpoint.send_wait(pair.peer(), Tag{0}, buffer).error, "send");
      laps.count();
    }
    return laps.median_ns() / 2;
  });
}

double wake_up_in_place_ns() {
  task::Scheduler scheduler({.workers = 1});
  return scheduler.run([] {
    return median_call_ns(kCalls, [me = task::this_task()](unsigned) {
      task::signal(me);
      task::wait();
    });
  });
}

double wake_up_suspended_ns() {
  task::Scheduler scheduler({.workers = 1});
  return scheduler.run([] {
    bool over = false;
    const task::TaskRef me = task::this_task();
    auto other = task::spawn([&] {
      while (!over) {
        task::wait();
        task::signal(me);
      }
    });
    const task::TaskRef it = other.ref();
    const double round_ns = median_call_ns(kCalls, [&](unsigned) {
      task::signal(it);
      task::wait();
    });
    over = true;
    task::signal(it);
    other.join();
    return round_ns / 2;
  });
}

}  // namespace

int run_explain(const Options& options) {
  Pair pair;
  Runtime runtime(runtime_options(pair, options));
  if (options.size == 0 || options.size > runtime.inline_bytes()) {
    throw std::runtime_error("explain: for messages that travel inside the ring");
  }
  const auto ping_pong =
      make_ping_pong(Mode::matched, {pair, runtime, options.size, 1, true, false});
  RawPort port(pair, options.size);
  comm::MatchTable table;
  comm::OperationTable operations(1024, 64, 64);
  const auto alone = [&](auto part) {
    return [&pair, part] { return Reading{pair.leads() ? part() : 0.0}; };
  };
  std::vector<Contestant> contestants{
      {"whole", [&] { return Reading{ping_pong->turn(turn_seconds(1)).trip_ns / 2}; }},
      {"transfer", [&] { return Reading{port.one_way_ns()}; }},
      {"matching", alone([&] { return matching_ns(table); })},
      {"pool", alone([&] { return pool_ns(operations); })},
      {"completion", alone(completion_ns)}};
  const std::size_t parts = contestants.size();
  Endpoint of_tasks(runtime, {});
  contestants.push_back(
      {"whole_of_tasks", [&] { return Reading{task_one_way_ns(pair, of_tasks, options.size)}; }});
  contestants.push_back({"wake_up_in_place", alone(wake_up_in_place_ns)});
  contestants.push_back({"wake_up_suspended", alone(wake_up_suspended_ns)});
  auto rounds = run_contest(pair, contestants, options.seconds);
  if (!pair.leads()) return 0;
  for (Round& round : rounds) {
    double sum = 0;
    for (std::size_t part = 1; part < parts; ++part) {
      sum += round.readings[part].value;
    }
    round.readings.insert(round.readings.begin() + 1, Reading{sum});
  }
  contestants.insert(contestants.begin() + 1, Contestant{"sum_of_parts", {}});
  Result form = figure("latency_explain", "matched", "ns", Better::lower);
  form.size_bytes = options.size;
  form.devices = runtime.device_count();
  for (Result result : settle(form, contestants, rounds)) {
    result.extra["off_percent"] = std::abs(result.ratio->median - 1) * 100;
    result.extra["off_percent_noise"] = result.ratio->spread() * 100;
    print(result, options.json);
  }
  return 0;
}

}  // namespace weft::bench
