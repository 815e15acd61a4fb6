// The room's configuration.
#include <algorithm>

#include "comm/runtime_impl.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/base/topology.hpp"

namespace weft {

namespace {

using base::ConfigType;

constexpr base::ConfigKey kKeys[] = {
    {.key = "comm.devices",
     .type = ConfigType::integer,
     .fallback = "0",
     .low = 0,
     .high = 1024,
     .help = "Devices of a rank; 0: one for each two cores, at least 1, at most 8."},
    {.key = "comm.progress",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|explicit|waiters|server|workers",
     .help = "Who progresses; automatic: workers, which is waiters where there are no tasks."},
    {.key = "comm.serial_progress",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help = "One thread of a rank polls at a time, whatever the device; to compare with."},
    {.key = "comm.assignment",
     .type = ConfigType::choice,
     .fallback = "dedicated",
     .choices = "dedicated|round-robin",
     .help = "How threads get devices."},
    {.key = "comm.eager_bytes",
     .type = ConfigType::bytes,
     .fallback = "64K",
     .low = 256,
     .high = int64_t{1} << 20,
     .help = "Messages up to this size are sent eagerly; at most a packet's size."},
    {.key = "comm.network_eager_bytes",
     .type = ConfigType::bytes,
     .fallback = "64K",
     .low = 256,
     .high = int64_t{1} << 20,
     .help = "The same, of messages that go over a network; at least what goes eagerly elsewhere."},
    {.key = "comm.operations",
     .type = ConfigType::integer,
     .fallback = "65536",
     .low = 64,
     .high = int64_t{1} << 24,
     .help = "Operations that may be under way at once in a rank."},
    {.key = "comm.unexpected",
     .type = ConfigType::integer,
     .fallback = "16384",
     .low = 64,
     .high = int64_t{1} << 24,
     .help = "Messages that may wait for their receive in a rank; then senders wait."},
    {.key = "comm.copy_chunk_bytes",
     .type = ConfigType::bytes,
     .fallback = "1M",
     .low = 4096,
     .high = int64_t{1} << 30,
     .help = "Most bytes of large transfers that are copied before small messages get their turn."},
    {.key = "comm.share_bytes",
     .type = ConfigType::bytes,
     .fallback = "32K",
     .low = 4096,
     .high = int64_t{1} << 62,
     .help = "From this size on the sender of a large message sends it in packets while it waits, "
             "and the receiver reads what does not come."},
    {.key = "comm.nontemporal",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|always|never",
     .help =
         "Whether packets, and puts, for this node are written past the caches, from 2 KiB on, on "
         "processors where that may be quicker. automatic: where one whose core is so far "
         "that it is, as copies are found to take, read last what lay there, or reads next. And "
         "large messages into their receiver's "
         "buffer; automatic: where that is more memory than the caches hold."},
    {.key = "comm.open_packets",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|always|never",
     .help =
         "Which packets for this node, of 24 KiB and more, are lent before they are written, and "
         "read as they are. automatic: one message's at a time, where no other process wants the "
         "core; and what MPI would announce, of up to 256 KiB (128 where another process wants the "
         "core), is written and goes at once, while half a MiB of both kinds is out at most. "
         "never: "
         "neither; what is longer than eager messages is announced."},
    {.key = "comm.spin",
     .type = ConfigType::nanoseconds,
     .fallback = "50us",
     .low = 0,
     .high = int64_t{10} * 1000 * 1000 * 1000,
     .help = "How long, at least, a waiting thread polls without result before it sleeps."},
    {.key = "comm.report_quiet",
     .type = ConfigType::nanoseconds,
     .fallback = "30s",
     .low = 0,
     .high = int64_t{24} * 3600 * 1000 * 1000 * 1000,
     .help =
         "After how long without anything coming a rank that waits, and has something short, "
         "unanswered or not received, logs what that is, one line in that time at most. 0: never."},
    {.key = "comm.report_rings",
     .type = ConfigType::boolean,
     .fallback = "off",
     .help =
         "After comm.report_quiet a rank that waits to receive asks those whom it waits for, and "
         "logs if they wait for it, in a ring, or end their runtime. Other threads of theirs that "
         "compute may send yet. Not of MPI's receives: mpi.report_waits."},
    {.key = "comm.cores",
     .type = ConfigType::integer,
     .fallback = "0",
     .low = 0,
     .high = 1 << 16,
     .help =
         "Cores that the process can count on; 0: those that it is bound to, or, if to none, its "
         "share of the node's. Where that is one (and so are the devices), waiting threads take "
         "turns."},
    {.key = "comm.turn",
     .type = ConfigType::nanoseconds,
     .fallback = "40us",
     .low = 0,
     .high = int64_t{10} * 1000 * 1000,
     .help =
         "Of waiting threads that take turns: how long one that is answered at once keeps the "
         "core while others wait for it (longer while fewer than 40 wait, or where the answers are "
         "long ones); 0: none, each is woken at once."},
};

template <class E>
E choice(std::string_view key, std::initializer_list<std::pair<std::string_view, E>> values) {
  const std::string text = base::config_text(key);
  for (const auto& [name, value] : values) {
    if (text == name) return value;
  }
  return values.begin()->second;
}

}  // namespace

void register_comm_config() {
  static const bool once = (base::register_config(kKeys), true);
  (void)once;
}

RuntimeSettings read_settings(const RuntimeOptions& options) {
  register_comm_config();
  RuntimeSettings s{};
  s.progress = options.progress.value_or(
      choice<Progress>("comm.progress", {{"automatic", Progress::automatic},
                                         {"explicit", Progress::explicit_},
                                         {"waiters", Progress::waiters},
                                         {"server", Progress::server},
                                         {"workers", Progress::workers}}));
  if (s.progress == Progress::automatic) s.progress = Progress::workers;
  s.serial_progress = options.serial_progress.value_or(base::config_bool("comm.serial_progress"));
  s.assignment = options.assignment.value_or(choice<Assignment>(
      "comm.assignment",
      {{"dedicated", Assignment::dedicated}, {"round-robin", Assignment::round_robin}}));
  s.devices = options.devices.value_or(static_cast<uint32_t>(base::config_int("comm.devices")));
  if (s.devices == 0) {
    const auto cores = static_cast<uint32_t>(base::Topology::machine().cores().size());
    s.devices = std::clamp<uint32_t>(cores / 2, 1, 8);
  }
  if (s.devices > 1024) {
    throw Error(Errc::bad_argument, "more than 1024 devices were asked for");
  }
  s.eager_bytes = static_cast<std::size_t>(base::config_int("comm.eager_bytes"));
  s.far_eager_bytes = static_cast<std::size_t>(base::config_int("comm.network_eager_bytes"));
  s.operations =
      options.operations.value_or(static_cast<uint32_t>(base::config_int("comm.operations")));
  s.unexpected = static_cast<uint32_t>(base::config_int("comm.unexpected"));
  s.copy_chunk_bytes = static_cast<std::size_t>(base::config_int("comm.copy_chunk_bytes"));
  s.open_packets = choice<OpenPackets>("comm.open_packets", {{"automatic", OpenPackets::automatic},
                                                             {"always", OpenPackets::always},
                                                             {"never", OpenPackets::never}});
  s.nontemporal =
      choice<comm::Nontemporal>("comm.nontemporal", {{"automatic", comm::Nontemporal::automatic},
                                                     {"always", comm::Nontemporal::always},
                                                     {"never", comm::Nontemporal::never}});
  s.share_bytes = static_cast<std::size_t>(base::config_int("comm.share_bytes"));
  s.cores = static_cast<uint32_t>(base::config_int("comm.cores"));
  s.turn_ns = static_cast<uint64_t>(base::config_int("comm.turn"));
  s.report_quiet_ns = options.report_quiet_ns.value_or(
      static_cast<uint64_t>(base::config_int("comm.report_quiet")));
  s.what_waits = options.what_waits;
  s.report_rings = base::config_bool("comm.report_rings");
  s.spin_ns = static_cast<uint64_t>(base::config_int("comm.spin"));
  return s;
}

}  // namespace weft
