#include "weft/fabric/config.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "fabric/lane_setup.hpp"
#include "fabric/shm_store.hpp"
#include "weft/base/config.hpp"

namespace weft::fabric {

namespace {

using enum base::ConfigType;

constexpr std::array kTable = std::to_array<base::ConfigKey>({
    {"fabric.transport", choice, "automatic", 0, 0, "automatic|shm|ofi|by_node",
     "How ranks reach each other. automatic: shared memory if all have it, else by_node: shared "
     "memory within nodes, also pretended ones, and the network between them."},
    {"fabric.lane_cells",
     integer,
     "256",
     8,
     1 << 20,
     {},
     "Cells of 64 bytes in the message ring of each lane; a power of two."},
    {"fabric.control_cells",
     integer,
     "64",
     8,
     1 << 20,
     {},
     "Cells of 64 bytes in the control ring of each lane; a power of two."},
    {"fabric.inline_cells",
     integer,
     "16",
     1,
     16,
     {},
     "Most cells that a message travelling inside a ring may take, if half of each ring has as "
     "many; over a network 4 at most."},
    {"fabric.packet_bytes",
     bytes,
     "64K",
     64,
     1 << 20,
     {},
     "Payload of one packet, a multiple of 64. MPI: the same on all ranks, whose collectives cut "
     "what is long accordingly."},
    {"fabric.packets", integer, "256", 16, 1 << 20, {}, "Packets of each rank."},
    {"fabric.packet_node",
     integer,
     "-1",
     -1,
     1023,
     {},
     "NUMA node of a rank's packets; -1: the node the rank runs on, which writes them all."},
    {"fabric.exposures",
     integer,
     "1024",
     1,
     1 << 20,
     {},
     "Regions that one rank may have exposed at one time."},
    {"fabric.shm_backing", choice, "memfd", 0, 0, "memfd|file",
     "Where shared segments live: nameless memory found through /proc, or named files."},
    {"fabric.shm_dir", text, kDefaultShmDir, 0, 0, {}, "Folder of named segments."},
    {"fabric.membarrier", choice, "auto", 0, 0, "auto|off",
     "Who pays for falling asleep: the sleeper, where the kernel can, or (off) every send, by a "
     "fence."},
    {"fabric.cma", choice, "auto", 0, 0, "auto|off",
     "Cross-memory attach: probed for each peer, or never used."},
    {"fabric.security", choice, "plain", 0, 0, "plain|mac",
     "Frames between nodes: as they are, or each with a tag that only this job's ranks can make."},
    {"fabric.ofi.provider",
     text,
     "",
     0,
     0,
     {},
     "libfabric's provider by its name there, as tcp;ofi_rxm; empty: the first that fits, of TCP's "
     "the one without layers."},
    {"fabric.ofi.interface",
     text,
     "",
     0,
     0,
     {},
     "Network interface, as eth0 (libfabric's domain); empty: loopback for jobs of one node, else "
     "the first that other hosts can reach."},
    {"fabric.ofi.receives",
     integer,
     "64",
     4,
     4096,
     {},
     "Receive buffers of each port, of fabric.packet_bytes and a header; sized: the most of one "
     "size."},
    {"fabric.ofi.receive", choice, "single", 0, 0, "single|multi|sized",
     "Buffers to receive into: each for one message, however large; large ones in which messages "
     "land one after the other; or of several sizes, as many of each as arrivals suggest. Of the "
     "last, all ranks or none."},
    {"fabric.ofi.receive_memory",
     bytes,
     "1M",
     64 << 10,
     1 << 30,
     {},
     "Of the buffers that a port has posted, multi and sized; at least as many as the largest "
     "messages need."},
    {"fabric.ofi.step_receives",
     integer,
     "64",
     0,
     1 << 20,
     {},
     "Completions of the network that one step reads before it sends what waits; 0: all."},
    {"fabric.ofi.step_sends",
     integer,
     "0",
     0,
     1 << 20,
     {},
     "Messages handed to the network by a port before it receives again; 0: all there are."},
    {"fabric.ofi.under_way",
     integer,
     "0",
     0,
     1 << 20,
     {},
     "Messages of a port that the network may have in its hands, but for the shortest; 0: as many "
     "as it takes."},
    {"fabric.ofi.remote_reads", choice, "automatic", 0, 0, "automatic|provider|messages|off",
     "How a receiver gets a large message out of the sender's memory into its own, where "
     "fabric.security is plain: by the provider's reads; in messages with a tag, which the "
     "sender's rank sends when it is asked; automatic: those over plain TCP, else the provider's; "
     "off: not at all, it comes in packets."},
    {"fabric.ofi.silence_s",
     integer,
     "30",
     0,
     86'400,
     {},
     "After so many seconds without a word from it a peer on the network is dead; 0: never."},
});

}  // namespace

void register_fabric_config() {
  static std::once_flag once;
  std::call_once(once, [] { base::register_config(kTable); });
}

Geometry default_geometry(uint32_t ports) {
  register_fabric_config();
  const auto number = [](std::string_view key) {
    return static_cast<uint32_t>(base::config_int(key));
  };
  return {ports, number("fabric.lane_cells"), number("fabric.control_cells"),
          number("fabric.packet_bytes"), number("fabric.packets")};
}

uint32_t configured_inline_cells(const Geometry& geometry) {
  const auto wanted = static_cast<uint32_t>(base::config_int("fabric.inline_cells"));
  return std::min({wanted, geometry.lane_cells / 2, geometry.control_cells / 2});
}

LaneSetup lane_setup(const Geometry& geometry, std::vector<Rank> ranks) {
  register_fabric_config();
  LaneSetup setup;
  setup.geometry = geometry;
  setup.ranks = std::move(ranks);
  setup.inline_cells = configured_inline_cells(geometry);
  setup.exposures = static_cast<uint32_t>(base::config_int("fabric.exposures"));
  setup.packet_node = static_cast<int>(base::config_int("fabric.packet_node"));
  setup.membarrier = base::config_text("fabric.membarrier") != "off";
  setup.reads = base::config_text("fabric.cma") != "off";
  return setup;
}

}  // namespace weft::fabric
