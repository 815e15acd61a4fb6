// What an MPI program waits for where nothing comes for long, in MPI's words (comm.report_quiet,
// mpi.report_waits).
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/messages/engine.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"

namespace weft::mpi {
namespace {

constexpr std::size_t kMostNamed = 4;

/// Receives that wait, by sender's process and tag: how many of each.
using Receives = std::map<std::pair<int32_t, int>, std::size_t>;

Receives posted_in(Channel& channel) {
  Receives posted;
  std::vector<Transfer*> none;
  channel.take_receives(
      [](void* into, const Transfer& receive) {
        ++(*static_cast<Receives*>(into))[{receive.process.value, receive.tag}];
        return false;
      },
      &posted, none);
  return posted;
}

/// The first message from `process` that no receive asks for; false: there is none.
bool find_stray(Channel& channel, Rank process, Outcome& stray) {
  struct Look {
    const Channel& channel;
    Outcome& stray;
  } look{channel, stray};
  return channel.find(
      process, MPI_ANY_TAG,
      [](void* argument, const Arrived& message) {
        auto& my = *static_cast<Look*>(argument);
        my.stray = {.source = my.channel.group->rank_of(message.process),
                    .tag = message.tag,
                    .bytes = static_cast<int64_t>(message.bytes)};
      },
      &look);
}

std::string name_of(const Channel& channel) {
  return channel.name.empty()
             ? fmt::format("a communicator without a name, context {}", channel.context)
             : channel.name;
}

std::string name_of(const Channel& channel, Rank process) {
  return process == kAnySource ? "any rank"
                               : fmt::format("rank {}", channel.group->rank_of(process));
}

/// "rank 1, tag 5; rank 2, any tag (3 times)", the first few. Of a collective the tag says nothing.
std::string list_of(const Channel& channel, const Receives& receives) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [key, times] : receives) {
    if (named++ == kMostNamed)
      return text + fmt::format(" and {} more", receives.size() - kMostNamed);
    if (!text.empty()) text += ", ";
    text += name_of(channel, Rank{key.first});
    if (channel.plane == Plane::program)
      text += key.second == MPI_ANY_TAG ? " any tag" : fmt::format(" tag {}", key.second);
    if (times != 1) text += fmt::format(" ({} times)", times);
  }
  return text;
}

}  // namespace

std::string Engine::what_waits(bool all) {
  std::string text;
  bool looks_wrong = false;
  const std::scoped_lock guard(channels_lock_);  // their groups stay
  for (Channel* const channel : made_) {
    if (channel->group == nullptr) continue;
    Receives receives = posted_in(*channel);
    if (receives.empty()) continue;
    if (channel->plane == Plane::collective) {
      Receives by_rank;
      for (const auto& [key, times] : receives) by_rank[{key.first, 0}] = 1;
      text += fmt::format("; a collective on {} waits for {}", name_of(*channel),
                          list_of(*channel, by_rank));
      continue;
    }
    text +=
        fmt::format("; receives on {} wait for {}", name_of(*channel), list_of(*channel, receives));
    if (channel->relies_on_exact_keys() || channel->unexpected() == 0) continue;
    Outcome stray;
    for (const auto& [key, times] : receives) {
      if (!find_stray(*channel, Rank{key.first}, stray)) continue;
      text += fmt::format(", and from rank {} came tag {}, {} bytes, which none of them asks for",
                          stray.source, stray.tag, stray.bytes);
      looks_wrong = true;
      break;
    }
  }
  return all || looks_wrong ? text : std::string();
}

std::string what_waits(bool all) {
  if (!is_active() || the_engine == nullptr) return {};  // it begins or ends
  const std::string text = engine().what_waits(all);
  const std::string call = all || !text.empty() ? mpi_call() : std::string();
  return call.empty() ? text : fmt::format("; in {}", call) + text;
}

}  // namespace weft::mpi
