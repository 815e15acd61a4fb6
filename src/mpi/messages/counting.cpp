// The counters: of all communicators together, of each, and of the devices.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "mpi/counters.hpp"
#include "mpi/messages/engine.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

/// What is told of one channel: since its communicator has it, or since it was made.
struct ChannelView {
  const Channel& channel;
  bool whole_life;
  [[nodiscard]] uint64_t operator()(ChannelCount what) const noexcept {
    return whole_life ? channel.counts.total(what) : channel.counts.now(what);
  }
};

struct ChannelCounter {
  const char* name;
  const char* help;
  CounterKind kind;
  uint64_t (*read)(const ChannelView& of);
};

template <ChannelCount kWhat>
uint64_t sum_of(const ChannelView& of) {
  return of(kWhat);
}

constexpr ChannelCounter kChannelCounters[] = {
    {"messages_sent", "Messages sent, point-to-point and of collectives.", CounterKind::sum,
     sum_of<ChannelCount::sent>},
    {"messages_received", "Messages that met a receive.", CounterKind::sum,
     sum_of<ChannelCount::received>},
    {"bytes_sent", "Bytes of the messages sent.", CounterKind::sum,
     sum_of<ChannelCount::sent_bytes>},
    {"bytes_received", "Bytes of the messages received.", CounterKind::sum,
     sum_of<ChannelCount::received_bytes>},
    {"unexpected", "Messages that came before their receive.", CounterKind::sum,
     sum_of<ChannelCount::unexpected>},
    {"announced", "Messages sent by rendezvous.", CounterKind::sum,
     sum_of<ChannelCount::announced>},
    {"out_of_sequence", "Messages that overtook an earlier one between devices.", CounterKind::sum,
     sum_of<ChannelCount::out_of_sequence>},
    {"combined", "Messages of reductions that were combined as they came.", CounterKind::sum,
     sum_of<ChannelCount::combined>},
    {"stalls", "Sends that found no room and went later.", CounterKind::sum,
     sum_of<ChannelCount::stalls>},
    {"match_attempts", "Receives and messages that looked for what they match.", CounterKind::sum,
     [](const ChannelView& of) {
       return of(ChannelCount::posted) + of(ChannelCount::met_posted) +
              of(ChannelCount::unexpected) + of(ChannelCount::met_unexpected);
     }},
    {"match_passed", "Entries of queues that were looked at and did not match.", CounterKind::sum,
     sum_of<ChannelCount::passed>},
    {"match_time", "Time spent in matching; with mpi.match_times.", CounterKind::nanoseconds,
     sum_of<ChannelCount::match_ns>},
    {"posted_length", "Receives that wait now.", CounterKind::level,
     [](const ChannelView& of) { return of.channel.counts.posted(); }},
    {"unexpected_length", "Messages that wait now.", CounterKind::level,
     [](const ChannelView& of) { return of.channel.unexpected(); }},
    {"posted_most", "Most receives that waited at once in one queue; with mpi.match_times.",
     CounterKind::high_water,
     [](const ChannelView& of) { return of.channel.counts.most_posted(of.whole_life); }},
    {"unexpected_most", "Most messages that waited at once in one queue.", CounterKind::high_water,
     [](const ChannelView& of) { return of.channel.counts.most_unexpected(of.whole_life); }},
};

/// Of several channels, each a queue: the sum, or the longest.
template <class Channels>
uint64_t of_channels(const ChannelCounter& row, const Channels& channels, bool whole_life) {
  uint64_t all = 0;
  for (const Channel* channel : channels) {
    if (channel == nullptr) continue;
    const uint64_t one = row.read({*channel, whole_life});
    all = row.kind == CounterKind::high_water ? std::max(all, one) : all + one;
  }
  return all;
}

void add_channels_counters() {
  for (const ChannelCounter& row : kChannelCounters) {
    add_counter({.name = row.name, .help = row.help, .kind = row.kind, .read = [&row](const Comm*) {
                   return of_channels(row, engine().all_channels(), true);
                 }});
  }
  for (const ChannelCounter& row : kChannelCounters) {
    add_counter(
        {.name = std::string("comm_") + row.name,
         .help = std::string(row.help) + " Of one communicator.",
         .kind = row.kind,
         .per_comm = true,
         .read = [&row](const Comm* comm) { return of_channels(row, comm->channels, false); }});
  }
}

struct DeviceCounter {
  const char* name;
  const char* help;
  uint64_t DeviceCounts::*count;
};

constexpr DeviceCounter kDeviceCounters[] = {
    {"frames", "Frames that arrived.", &DeviceCounts::frames},
    {"far_frames",
     "Frames that arrived from other nodes, where there are several (transport by_node).",
     &DeviceCounts::far_frames},
    {"polls", "Looks at what arrived.", &DeviceCounts::polls},
    {"empty_polls", "Looks that found nothing.", &DeviceCounts::empty_polls},
    {"held", "Frames left where they were until there was room.", &DeviceCounts::held},
    {"refusals", "Tries to progress that found another thread doing it.", &DeviceCounts::refusals},
    {"parks", "Times that a thread parked while another progressed.", &DeviceCounts::parks},
    {"sleeps", "Times that whoever progressed slept until a message came.", &DeviceCounts::sleeps},
};

/// The `from`-th device up to the `to`-th of this runtime, which may have fewer than the last one.
uint64_t of_devices(uint64_t DeviceCounts::*count, uint32_t from, uint32_t to) {
  uint64_t all = 0;
  for (uint32_t i = from; i < std::min(to, runtime().device_count()); ++i) {
    all += runtime().device_counts(i).*count;
  }
  return all;
}

void add_device_counters() {
  const uint32_t devices = runtime().device_count();
  for (const DeviceCounter& row : kDeviceCounters) {
    add_counter({.name = std::string("device_") + row.name,
                 .help = std::string(row.help) + " Of all devices.",
                 .read = [count = row.count](const Comm*) { return of_devices(count, 0, ~0U); }});
  }
  for (uint32_t i = 0; devices > 1 && i < devices; ++i) {
    for (const DeviceCounter& row : kDeviceCounters) {
      add_counter(
          {.name = "device_" + std::to_string(i) + "_" + row.name,
           .help = std::string(row.help) + " Of device " + std::to_string(i) + ".",
           .read = [count = row.count, i](const Comm*) { return of_devices(count, i, i + 1); }});
    }
  }
}

}  // namespace

void register_counters() {
  add_channels_counters();
  add_counter({.name = "waits", .help = "Calls that had to wait.", .read = [](const Comm*) {
                 return engine().counted(Engine::waits);
               }});
  add_counter({.name = "stops",
               .help = "Times a sender was told to announce its messages.",
               .read = [](const Comm*) { return engine().counted(Engine::stops); }});
  add_device_counters();
}

}  // namespace weft::mpi
