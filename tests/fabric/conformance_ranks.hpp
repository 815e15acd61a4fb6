// The conformance suite's ranks: two or more transports of one provider in this process.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::test {

/// One way to make ranks; the suite runs on each.
struct Provider {
  std::string name;
  int ranks = 2;  ///< how many it can make at least; 1: `self`, every peer is the rank itself
  std::function<std::unique_ptr<Transport>(Job&, const Geometry&)> make;
  std::vector<std::pair<std::string, std::string>> config = {};  ///< in force while it is made
  std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)> wrap = {};
  bool reads_peers = true;  ///< and maps their memory
  bool makes_runs = true;   ///< of short frames
  int nodes = 1;            ///< to which its ranks are dealt in blocks, if there are enough
  /// As many ranks again are made beside those of the test, on another node: then all of the test's
  /// are of one, in a job of two.
  bool beside = false;
  bool only_plain = false;  ///< not in interceptors: another provider stands for it
  friend std::ostream& operator<<(std::ostream& out, const Provider& p) { return out << p.name; }
};

/// All providers, plain and wrapped in interceptors.
const std::vector<Provider>& providers();
/// Only the plain ones.
const std::vector<Provider>& plain_providers();

/// What a sink saw.
struct Seen {
  Rank source;
  std::string head;
  std::string packet;
  Loan loan;
};

/// A sink that writes everything down, and holds what it is told to hold.
class Recorder final : public Sink {
 public:
  Taken on_frame(const Frame& frame) override;
  void on_control(const Frame& frame) override;
  void on_returned(std::span<const uint32_t> packets) override;
  void on_read(uint64_t token, bool ok) override { reads.emplace_back(token, ok); }
  void on_peer_down(Rank peer, std::string_view cause) override;

  std::vector<Seen> frames, control;
  std::vector<std::pair<uint64_t, bool>> reads;
  std::vector<uint32_t> returned;
  std::vector<std::pair<Rank, std::string>> downs;
  std::function<bool(const Frame&)> hold;  ///< true: hold this one
  int held = 0;
};

/// `n` ranks with `ports` open ports each, and those beside them.
class Ranks {
 public:
  /// `before_making`: what each thread that makes a transport does first.
  Ranks(
      const Provider& provider, int n, const Geometry& geometry,
      const std::function<void()>& before_making = [] {});
  [[nodiscard]] int size() const { return size_; }
  Transport& transport(int rank) { return *transports_.at(static_cast<std::size_t>(rank)); }
  Port& port(int rank, uint32_t number = 0) {
    return *ports_.at(static_cast<std::size_t>(rank)).at(number);
  }
  /// Ends a rank's transport, as if it had left.
  void end(int rank);
  /// The rank that stands for `rank` here: `self` has but one.
  [[nodiscard]] int at(int rank) const { return rank % size(); }

 private:
  int size_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::vector<std::unique_ptr<Port>>> ports_;
};

/// As a sleeper arms its ports.
inline void arm(Port& port) {
  port.arm();
  arming_barrier();
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
/// `n` bytes that tell `seed`.
std::string pattern(std::size_t n, uint64_t seed);

Geometry small_geometry();

/// Polls until `done` or about `seconds` have passed; false then.
bool poll_until(Port& port, Sink& sink, const std::function<bool()>& done, double seconds = 20);

/// Sends, polling `port` of the receiving side with `sink` while the answer is retry.
void send_all(Port& from, Rank to, uint32_t to_port, std::string_view header,
              std::string_view payload, Port& receiver, Sink& sink);

/// How long a stress test runs; how random it is.
double stress_seconds();
uint64_t stress_seed(const char* test);

/// Base of the suites.
class Conformance : public ::testing::TestWithParam<Provider> {
 protected:
  Ranks make(int n, const Geometry& geometry = small_geometry()) {
    return Ranks(GetParam(), GetParam().ranks == 1 ? 1 : n, geometry);
  }
};

std::string provider_name(const ::testing::TestParamInfo<Provider>& info);

}  // namespace weft::fabric::test
