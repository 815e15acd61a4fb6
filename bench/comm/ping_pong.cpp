#include "comm/ping_pong.hpp"

#include <algorithm>

#include "harness/laps.hpp"

namespace weft::bench {
namespace {

template <class TokenOf>
class PingPongOf final : public PingPong {
 public:
  explicit PingPongOf(const TokenSetup& setup)
      : setup_(setup), shared_(setup), results_(setup.threads), crew_(setup.threads) {
    for (unsigned i = 0; i < setup.threads; ++i) {
      tokens_.push_back(std::make_unique<TokenOf>(shared_, i));
    }
  }

  RoundTrips turn(double seconds) override {
    const bool asks = setup_.pair.leads();
    work_for(setup_.pair, crew_, seconds, [this, asks](unsigned i) { asks ? ask(i) : answer(i); });
    return asks ? sum() : RoundTrips{};
  }

 private:
  struct alignas(base::kCacheLine) Served {
    uint64_t trips = 0, start = 0, end = 0;
    double trip_ns = 0;
  };

  // Each asking thread retires one token with a last message, and each answering thread one.
  void ask(unsigned number) {
    TokenOf& token = *tokens_[number];
    Served& served = results_[number];
    token.send(number, false);
    // The first trip finds the partner still waking up for this turn.
    token.send(token.receive().pair, false);
    served.trips = 0;
    served.start = base::now_ns();
    Laps laps(setup_.bytes <= 4096 && setup_.threads == 1 ? 32 : 1);
    laps.start();
    for (;;) {
      const unsigned pair = token.receive().pair;
      ++served.trips;
      laps.count();
      if (turn_is_over(setup_.pair)) {
        served.end = base::now_ns();
        token.send(pair, true);
        break;
      }
      token.send(pair, false);
    }
    served.trip_ns = laps.median_ns();
    token.settle();
  }

  void answer(unsigned number) {
    TokenOf& token = *tokens_[number];
    for (;;) {
      const Token got = token.receive();
      if (got.last) break;
      token.send(got.pair, false);
    }
    token.settle();
  }

  RoundTrips sum() const {
    RoundTrips all;
    std::vector<double> trips;
    uint64_t first = ~uint64_t{0};
    uint64_t last = 0;
    for (const Served& served : results_) {
      first = std::min(first, served.start);
      last = std::max(last, served.end);
      const auto mine = static_cast<double>(served.trips);
      trips.push_back(mine);
      all.trips += mine;
      // Blocked threads wait for each other: there the mean is the figure, and a lap of nothing.
      all.trip_ns += setup_.threads == 1 && served.trip_ns > 0
                         ? served.trip_ns
                         : static_cast<double>(served.end - served.start) / mine;
    }
    const auto threads = static_cast<double>(results_.size());
    all.trip_ns /= threads;
    all.seconds = static_cast<double>(last - first) * 1e-9;
    // As many are under way as there are threads, whichever of them keeps them going.
    if (TokenOf::kForAnyone && setup_.threads > 1) {
      all.trip_ns = threads * all.seconds * 1e9 / all.trips;
    }
    all.fairness = fairness_of(trips);
    return all;
  }

  TokenSetup setup_;
  typename TokenOf::Shared shared_;
  std::vector<std::unique_ptr<TokenOf>> tokens_;
  std::vector<Served> results_;
  Crew crew_;
};

}  // namespace

std::unique_ptr<PingPong> make_ping_pong(Mode mode, const TokenSetup& setup) {
  switch (mode) {
    case Mode::queue:
      return std::make_unique<PingPongOf<QueueToken>>(setup);
    case Mode::handler:
      return std::make_unique<PingPongOf<HandlerToken>>(setup);
    case Mode::put:
      return std::make_unique<PingPongOf<PutToken>>(setup);
    default:
      return std::make_unique<PingPongOf<MatchedToken>>(setup);
  }
}

}  // namespace weft::bench
