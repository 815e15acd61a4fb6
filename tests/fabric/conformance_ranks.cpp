#include "fabric/conformance_ranks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "fabric/by_node_transport.hpp"
#include "fabric/parts.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/interceptors.hpp"

namespace weft::fabric::test {

namespace {

std::vector<std::unique_ptr<Job>> make_job(const Provider& provider, int n) {
  if (provider.beside) return make_local_job(2 * n, 2);
  return make_local_job(n, std::min(n, provider.nodes));
}

/// As make_by_node_transport, with segments also where all ranks are threads.
[[maybe_unused]] std::unique_ptr<Transport> make_by_node_with_shm(Job& job,
                                                                  const Geometry& geometry) {
  const std::vector<Rank> ranks = near_ranks(job);
  auto near = make_shm_part(job, geometry, ranks);
  auto far = make_ofi_part(job, geometry, near->packet_area());
  job.fence();
  return std::make_unique<ByNodeTransport>(job.size(), ranks, std::move(near), std::move(far));
}

}  // namespace

const std::vector<Provider>& plain_providers() {
  static const std::vector<Provider> all = {
    {"self", 1, make_local_transport},
    {"local", 2, make_local_transport},
    {"shm", 2, make_shm_transport},
    {"local_fenced", 2, make_local_transport, {{"fabric.membarrier", "off"}}},
    {"shm_file", 2, make_shm_transport, {{"fabric.shm_backing", "file"}}},
#if WEFT_HAS_OFI
    {"ofi", 2, make_ofi_transport, {}, {}, false, false},
    {"ofi_rxm", 2, make_ofi_transport, {{"fabric.ofi.provider", "tcp;ofi_rxm"}}, {}, false, false},
    {"ofi_mac", 2, make_ofi_transport, {{"fabric.security", "mac"}}, {}, false, false},
    {"ofi_self", 1, make_ofi_transport, {}, {}, false, false},
    // Two ranks are far from each other; of three or more, some are near.
    {.name = "by_node",
     .make = make_by_node_transport,
     .reads_peers = false,
     .makes_runs = false,
     .nodes = 2},
    {.name = "by_node_shm",
     .make = make_by_node_with_shm,
     .reads_peers = false,
     .makes_runs = false,
     .nodes = 2,
     .only_plain = true},
    // All are near, beside others that are not.
    {.name = "by_node_near", .make = make_by_node_transport, .beside = true, .only_plain = true},
    {.name = "by_node_shm_near", .make = make_by_node_with_shm, .beside = true},
#endif
  };
  return all;
}

const std::vector<Provider>& providers() {
  static const std::vector<Provider> all = [] {
    using Wrapped = std::unique_ptr<Transport>;
    std::vector<Provider> made = plain_providers();
    for (const Provider& plain : plain_providers()) {
      if (plain.only_plain) continue;
      const auto add = [&](const char* how, std::function<Wrapped(Wrapped)> wrap) {
        Provider one = plain;
        one.name += how;
        one.wrap = std::move(wrap);
        made.push_back(std::move(one));
      };
      // What opens a network is slow: in all interceptors together is enough.
      const bool is_networked = plain.name.starts_with("ofi") || plain.name.starts_with("by_node");
      if (plain.name.starts_with("ofi_")) continue;
      if (!is_networked) {
        add("_refusing", [](Wrapped t) { return refuse(std::move(t), 0.3, 1); });
        add("_delaying", [](Wrapped t) { return delay(std::move(t), 5, 2); });
        add("_reordering", [](Wrapped t) { return reorder_ports(std::move(t), 5, 3); });
      }
      add("_everything",
          [](Wrapped t) { return refuse(reorder_ports(delay(std::move(t), 3, 4), 3, 5), 0.2, 6); });
    }
    return made;
  }();
  return all;
}

Taken Recorder::on_frame(const Frame& frame) {
  if (hold && hold(frame)) {
    ++held;
    return Taken::hold;
  }
  frames.push_back({frame.source, text_of(frame.head), text_of(frame.packet), frame.loan});
  return Taken::yes;
}

void Recorder::on_control(const Frame& frame) {
  control.push_back({frame.source, text_of(frame.head), text_of(frame.packet), frame.loan});
}

void Recorder::on_returned(std::span<const uint32_t> packets) {
  returned.insert(returned.end(), packets.begin(), packets.end());
}

void Recorder::on_peer_down(Rank peer, std::string_view cause) { downs.emplace_back(peer, cause); }

Ranks::Ranks(const Provider& provider, int n, const Geometry& geometry,
             const std::function<void()>& before_making)
    : size_(n), jobs_(make_job(provider, n)), transports_(jobs_.size()), ports_(jobs_.size()) {
  register_fabric_config();
  std::vector<std::pair<std::string, std::string>> before;
  for (const auto& [key, value] : provider.config) {
    before.emplace_back(key, base::config_text(key));
    base::set_config(key, value);
  }
  std::vector<std::thread> makers;  // making a transport is collective
  for (std::size_t r = 0; r < jobs_.size(); ++r)
    makers.emplace_back([&, r] {
      before_making();
      transports_[r] = provider.make(*jobs_[r], geometry);
    });
  for (auto& maker : makers) maker.join();
  for (const auto& [key, value] : before) base::set_config(key, value);
  for (std::size_t r = 0; r < jobs_.size(); ++r) {
    if (provider.wrap) transports_[r] = provider.wrap(std::move(transports_[r]));
    for (uint32_t p = 0; p < geometry.ports; ++p) ports_[r].push_back(transports_[r]->open_port(p));
  }
}

void Ranks::end(int rank) {
  ports_[static_cast<std::size_t>(rank)].clear();
  transports_[static_cast<std::size_t>(rank)].reset();
}

std::string pattern(std::size_t n, uint64_t seed) {
  std::string text(n, '\0');
  std::minstd_rand random(static_cast<unsigned>(seed * 2654435761u + 1));
  for (char& c : text) c = static_cast<char>(random() >> 8);
  return text;
}

Geometry small_geometry() {
  Geometry g;
  g.ports = 2;
  g.lane_cells = 16;
  g.control_cells = 8;
  g.packet_bytes = 1024;
  g.packets = 16;
  return g;
}

bool poll_until(Port& port, Sink& sink, const std::function<bool()>& done, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  auto came = start;
  while (!done()) {
    const auto now = std::chrono::steady_clock::now();
    if (port.poll(sink, 64) != 0) {
      came = now;
    } else if (now - came < std::chrono::milliseconds(2)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // other tests run beside
    }
    if (now - start > std::chrono::duration<double>(seconds)) return done();
  }
  return true;
}

void send_all(Port& from, Rank to, uint32_t to_port, std::string_view header,
              std::string_view payload, Port& receiver, Sink& sink) {
  while (from.try_send(to, to_port, bytes_of(header), bytes_of(payload)) == Post::retry)
    receiver.poll(sink, 64);
}

double stress_seconds() { return static_cast<double>(base::config_int("stress.seconds")); }

uint64_t stress_seed(const char* test) {
  const auto set = base::environment("WEFT_STRESS_SEED");
  const uint64_t seed = set.found ? std::stoull(set.value) : std::random_device{}();
  std::printf("%s: WEFT_STRESS_SEED=%llu\n", test, static_cast<unsigned long long>(seed));
  return seed;
}

std::string provider_name(const ::testing::TestParamInfo<Provider>& info) {
  return info.param.name;
}

}  // namespace weft::fabric::test
