// Which hosts a job runs on: lists and files of hosts as users write them, and the ranks' deal.
#include "weftrun/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace weft::run {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr int kMostSlots = 1 << 20;
constexpr std::size_t kLongestName = 255;

/// Takes what stands before `end` off the front of `rest`.
std::string_view take_until(std::string_view& rest, std::string_view ends) {
  const std::string_view piece = rest.substr(0, rest.find_first_of(ends));
  rest.remove_prefix(std::min(rest.size(), piece.size() + 1));
  return piece;
}

std::optional<int> slots_in(std::string_view text) {
  int slots = 0;
  const auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (bad != std::errc() || stop != text.data() + text.size() || slots < 1 || slots > kMostSlots)
    return std::nullopt;
  return slots;
}

/// A name goes to the launch agent as a word of its own: no option, nothing that a shell minds.
bool good_name(std::string_view name, bool is_address) {
  const auto good = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '@' || c == '%' || (c == ':' && is_address);
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), good);
}

/// Adds "name" or "name:slots", the name an address of IPv6 if it stands in brackets, which the
/// launch agent does not get; what is wrong with it, or "".
std::string add(std::vector<HostSlots>& hosts, std::string_view entry, int slots) {
  const std::size_t bracket = entry.find('[');
  const std::size_t end = entry.find(']');
  const bool is_address = bracket < end && end != std::string_view::npos &&
                          (bracket == 0 || entry[bracket - 1] == '@') &&
                          entry.substr(bracket, end - bracket).find(':') != std::string_view::npos;
  const std::size_t colon = is_address ? entry.find(':', end) : entry.rfind(':');
  if (colon != std::string_view::npos) {
    const std::optional<int> given = slots_in(entry.substr(colon + 1));
    if (!given)
      return fmt::format("'{}': a number of slots from 1 to {} should follow the colon", entry,
                         kMostSlots);
    slots = *given;
    entry = entry.substr(0, colon);
  }
  std::string name(entry);
  if (is_address && end + 1 == entry.size()) name.erase(end).erase(bracket, 1);
  if (!good_name(name, is_address)) return fmt::format("'{}' is no host's name", entry);
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostSlots& host) { return host.name == name; });
  if (same == hosts.end())
    hosts.push_back({std::move(name), slots});
  else
    same->slots = std::max(same->slots, 1) + std::max(slots, 1);
  return {};
}

/// "name:4", where that is no address of IPv6.
bool host_has_slots(std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  return colon != std::string_view::npos && (entry.find(':') == colon || entry[colon - 1] == ']');
}

}  // namespace

HostList parse_host_list(std::string_view text) {
  HostList list;
  for (bool more = true; more && list.problem.empty();) {
    more = text.find(',') != std::string_view::npos;
    list.problem = add(list.value, take_until(text, ","), 0);
  }
  return list;
}

HostList parse_host_file(std::string_view text) {
  HostList list;
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = take_until(text, "\n");
    line = line.substr(0, line.find('#'));
    std::string_view name;
    int slots = 0;
    while (!line.empty()) {
      const std::string_view word = take_until(line, kBlank);
      if (word.empty()) continue;
      constexpr std::string_view kSlots = "slots=";
      std::string wrong;
      if (name.empty()) {
        name = word;
      } else if (word.starts_with(kSlots) && slots_in(word.substr(kSlots.size()))) {
        if (slots > 0 || host_has_slots(name)) wrong = fmt::format("'{}': slots were given", word);
        slots = *slots_in(word.substr(kSlots.size()));
      } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
        wrong = fmt::format("'{}': slots=N is all that can follow a host", word);
      }
      if (!wrong.empty()) return {{}, fmt::format("line {}: {}", number, wrong)};
    }
    if (name.empty()) continue;
    const std::string wrong = add(list.value, name, slots);
    if (!wrong.empty()) return {{}, fmt::format("line {}: {}", number, wrong)};
  }
  if (list.value.empty()) list.problem = "names no host";
  return list;
}

NodeList deal(const std::vector<HostSlots>& hosts, int ranks, bool oversubscribe) {
  const auto count = static_cast<int>(hosts.size());
  std::vector<int> shares(hosts.size(), 0);
  int left = ranks;
  if (std::any_of(hosts.begin(), hosts.end(), [](const HostSlots& h) { return h.slots > 0; })) {
    const auto slots = std::accumulate(
        hosts.begin(), hosts.end(), int64_t{0},
        [](int64_t sum, const HostSlots& host) { return sum + std::max(host.slots, 1); });
    if (slots < ranks && !oversubscribe)
      return {{},
              fmt::format("{} ranks, but the hosts have {} slots in all (--oversubscribe starts "
                          "more)",
                          ranks, slots)};
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      shares[i] = std::min(left, std::max(hosts[i].slots, 1));
      left -= shares[i];
    }
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    shares[i] += left / count + (static_cast<int>(i) < left % count ? 1 : 0);
  NodeList nodes;
  int first = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (shares[i] > 0) nodes.value.push_back({hosts[i].name, first, shares[i]});
    first += shares[i];
  }
  return nodes;
}

}  // namespace weft::run
