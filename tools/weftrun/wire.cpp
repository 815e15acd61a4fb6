// What weftrun and its daemons say to each other: the messages' bytes, and their check.
#include "weftrun/wire.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <stdexcept>

namespace weft::run {
namespace {

/// Which fields a kind of message carries, and what they may be.
struct Rule {
  Say say;
  bool member = false;  ///< 0 to members - 1; else 0
  bool rank = false;    ///< 0 to ranks - 1; else 0
  int least = 0;        ///< of value
  int most = 0;
  bool number = false;  ///< else 0
  std::size_t least_text = 0;
  std::size_t most_text = 0;
};

constexpr std::size_t kWords = 65536;  ///< most bytes of what is meant for people
constexpr int kMostErrno = 4095;
constexpr int kMostStatus = 0xffff;
constexpr int kMostSignal = 64;

// NOLINTBEGIN(readability-magic-numbers): a table
constexpr std::array kRules = std::to_array<Rule>({
    {Say::hello, true, false, 0, 0, false, kNonceBytes, kNonceBytes},
    {Say::challenge, false, false, 0, 0, false, kNonceBytes + kProofBytes,
     kNonceBytes + kProofBytes},
    {Say::proof, false, false, 0, 0, false, kProofBytes, kProofBytes},
    {Say::job, false, false, 0, 0, false, 1, kMostText},
    {Say::start},
    {Say::signal, false, false, 1, kMostSignal},
    {Say::pause},
    {Say::death, false, true, 0, kMostStatus, false, 0, kWords},
    {Say::left, false, true},
    {Say::fence_out, false, false, 0, 1, true, 0, kMostText},
    {Say::credit, true, false, 0, 1, true},
    {Say::input, false, false, 0, 0, false, 1, kMostText},
    {Say::input_end},
    {Say::sweep},
    {Say::bye},
    {Say::ready, true},
    {Say::started, false, true, 1, INT_MAX, false, 0, kWords},
    {Say::start_failed, false, true, 0, kMostErrno, false, 0, kWords},
    {Say::all_started, true},
    {Say::ended, false, true, 0, kMostStatus},
    {Say::joined, false, true},
    {Say::finalized, false, true},
    {Say::aborted, false, true, INT_MIN, INT_MAX, false, 0, kWords},
    {Say::output, true, true, 0, 1, false, 1, kMostText},
    {Say::output_end, true, true, 0, 1},
    {Say::input_credit, false, false, 0, 1, true},
    {Say::fence_in, false, false, 0, 1, true, 0, kMostText},
    {Say::swept, true},
    {Say::lost, true, false, 0, 0, false, 0, kWords},
    {Say::said, true, false, 0, 0, false, 0, kWords},
    {Say::modex_ask, true, true, 0, 0, true},
    {Say::modex_answer, true, false, INT_MIN, INT_MAX, true, 0, kMostText},
    {Say::beat},
});
// NOLINTEND(readability-magic-numbers)

const Rule* rule_of(uint8_t say) {
  const auto* const found = std::find_if(kRules.begin(), kRules.end(), [say](const Rule& rule) {
    return static_cast<uint8_t>(rule.say) == say;
  });
  return found == kRules.end() ? nullptr : found;
}

/// Numbers lowest byte first; texts and lists with their length in front.
class Packer {
 public:
  template <typename T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i)
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
  void text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void texts(const std::vector<std::string>& list) {
    number(static_cast<uint32_t>(list.size()));
    for (const std::string& one : list) text(one);
  }
  void raw(std::string_view text) { bytes_.append(text); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what Packer wrote. After a read that found too little, everything reads as 0 or empty, and
/// `good` says so.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T number() {
    const std::string_view bytes = take(sizeof(T));
    uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    return static_cast<T>(value);
  }
  std::string text() { return std::string(take(number<uint32_t>())); }
  std::vector<std::string> texts() {
    std::vector<std::string> list;
    for (std::size_t left = count(); left > 0 && good_; --left) list.push_back(text());
    return list;
  }
  /// The length of a list that follows: no longer than what is there could be.
  std::size_t count() {
    const auto found = number<uint32_t>();
    if (found > rest_.size()) good_ = false;
    return good_ ? found : 0;
  }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t bytes) {
    if (bytes > rest_.size()) good_ = false;
    if (!good_) return {};
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::string_view rest_;
  bool good_ = true;
};

bool no_zero_bytes(const std::vector<std::string>& texts) {
  return std::none_of(texts.begin(), texts.end(),
                      [](const std::string& text) { return text.find('\0') != std::string::npos; });
}

/// The parts of a spec fit together: what those who use it take for granted.
bool fits(const JobSpec& spec) {
  constexpr int kMostNodes = 1 << 16;
  if (spec.nodes.empty() || spec.nodes.size() > kMostNodes || spec.apps.empty()) return false;
  int ranks = 0;
  for (const NodePart& node : spec.nodes) {
    if (node.first != ranks || node.ranks < 1 || node.ranks > kMostRanks - ranks ||
        node.host.empty() ||
        node.host.find_first_of(std::string_view(",\0", 2)) != std::string::npos)
      return false;
    ranks += node.ranks;
  }
  for (const App& app : spec.apps) {
    if (app.ranks < 1 || app.ranks > ranks || app.command.empty() || !no_zero_bytes(app.env) ||
        !no_zero_bytes(app.command) || !no_zero_bytes({app.program, app.folder}))
      return false;
    ranks -= app.ranks;
  }
  const auto nodes = static_cast<int>(spec.nodes.size());
  return ranks == 0 && spec.root_node >= -1 && spec.root_node < nodes && spec.degree >= 1 &&
         spec.silence_ms > 0 && spec.launch_ms > 0 && !spec.agent.empty() &&
         no_zero_bytes(spec.agent) && no_zero_bytes(spec.environment) && no_zero_bytes(spec.env) &&
         no_zero_bytes({spec.nspace, spec.folder, spec.daemon}) && !spec.nspace.empty();
}

std::string_view take_line(std::string_view& rest, std::string_view name) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos || !rest.starts_with(name)) return {};
  const std::string_view line = rest.substr(name.size(), end - name.size());
  rest.remove_prefix(end + 1);
  return line;
}

/// A number of `text`, no less than 0 and no more than `most`; else -1.
int number_in(std::string_view text, int most) {
  if (text.empty() || text.size() > 9) return -1;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = 10 * value + (c - '0');
  }
  return value <= most ? value : -1;
}

}  // namespace

std::string encode(const Message& message) {
  if (message.text.size() > kMostText) throw std::length_error("a message of more than 64 MiB");
  Packer packer;
  packer.number(static_cast<uint32_t>(kFixedBytes + message.text.size()));
  packer.number(static_cast<uint8_t>(message.say));
  packer.number(static_cast<uint32_t>(message.member));
  packer.number(static_cast<uint32_t>(message.rank));
  packer.number(static_cast<uint32_t>(message.value));
  packer.number(message.number);
  packer.raw(message.text);
  return packer.take();
}

std::optional<std::size_t> decode_length(std::string_view four_bytes, std::size_t most_text) {
  Unpacker unpacker(four_bytes);
  const auto length = unpacker.number<uint32_t>();
  if (!unpacker.at_end() || length < kFixedBytes || length - kFixedBytes > most_text)
    return std::nullopt;
  return length;
}

std::optional<Message> decode(std::string_view bytes, const WireLimits& limits) {
  Unpacker unpacker(bytes);
  const Rule* const rule = rule_of(unpacker.number<uint8_t>());
  Message message;
  message.member = unpacker.number<int32_t>();
  message.rank = unpacker.number<int32_t>();
  message.value = unpacker.number<int32_t>();
  message.number = unpacker.number<uint64_t>();
  if (!unpacker.good() || rule == nullptr) return std::nullopt;
  message.say = rule->say;
  const std::string_view text = unpacker.rest();
  const auto within = [](int number, bool carried, int limit) {
    return number >= 0 && number < (carried ? limit : 1);
  };
  if (!within(message.member, rule->member, limits.members) ||
      !within(message.rank, rule->rank, limits.ranks) || message.value < rule->least ||
      message.value > rule->most || (!rule->number && message.number != 0) ||
      text.size() < rule->least_text || text.size() > rule->most_text)
    return std::nullopt;
  message.text = text;
  return message;
}

int JobSpec::member_of_rank(int rank) const {
  const auto after = std::upper_bound(nodes.begin(), nodes.end(), rank,
                                      [](int r, const NodePart& node) { return r < node.first; });
  return member_of_node(static_cast<int>(after - nodes.begin()) - 1);
}

std::string encode_spec(const JobSpec& spec) {
  Packer packer;
  packer.text(spec.nspace);
  packer.text(spec.folder);
  packer.texts(spec.environment);
  packer.texts(spec.agent);
  packer.text(spec.daemon);
  for (const int number : {spec.root_node, spec.degree, spec.silence_ms, spec.launch_ms})
    packer.number(static_cast<uint32_t>(number));
  packer.number(static_cast<uint8_t>(spec.bind));
  packer.texts(spec.env);
  packer.number(static_cast<uint32_t>(spec.apps.size()));
  for (const App& app : spec.apps) {
    packer.number(static_cast<uint32_t>(app.ranks));
    packer.texts(app.env);
    packer.texts(app.command);
    packer.text(app.program);
    packer.text(app.folder);
  }
  packer.number(static_cast<uint32_t>(spec.nodes.size()));
  for (const NodePart& node : spec.nodes) {
    packer.text(node.host);
    packer.number(static_cast<uint32_t>(node.first));
    packer.number(static_cast<uint32_t>(node.ranks));
  }
  return packer.take();
}

std::optional<JobSpec> decode_spec(std::string_view bytes) {
  Unpacker unpacker(bytes);
  JobSpec spec;
  spec.nspace = unpacker.text();
  spec.folder = unpacker.text();
  spec.environment = unpacker.texts();
  spec.agent = unpacker.texts();
  spec.daemon = unpacker.text();
  for (int* number : {&spec.root_node, &spec.degree, &spec.silence_ms, &spec.launch_ms})
    *number = unpacker.number<int32_t>();
  const auto bind = unpacker.number<uint8_t>();
  if (bind > static_cast<uint8_t>(Bind::numa)) return std::nullopt;
  spec.bind = static_cast<Bind>(bind);
  spec.env = unpacker.texts();
  for (std::size_t left = unpacker.count(); left > 0 && unpacker.good(); --left) {
    App& app = spec.apps.emplace_back();
    app.ranks = unpacker.number<int32_t>();
    app.env = unpacker.texts();
    app.command = unpacker.texts();
    app.program = unpacker.text();
    app.folder = unpacker.text();
  }
  for (std::size_t left = unpacker.count(); left > 0 && unpacker.good(); --left) {
    NodePart& node = spec.nodes.emplace_back();
    node.host = unpacker.text();
    node.first = unpacker.number<int32_t>();
    node.ranks = unpacker.number<int32_t>();
  }
  if (!unpacker.at_end() || !fits(spec)) return std::nullopt;
  return spec;
}

std::string encode_summons(const Summons& summons) {
  std::string text = "weftrun-daemon 1\nkey " + summons.key + "\nmember " +
                     std::to_string(summons.member) + "\nport " + std::to_string(summons.port) +
                     "\nlaunch-ms " + std::to_string(summons.launch_ms) + "\naddresses";
  for (const std::string& address : summons.addresses) text += " " + address;
  return text + "\nend\n";
}

std::optional<Summons> decode_summons(std::string_view text) {
  constexpr int kMostPort = 65535;
  constexpr int kMostMember = 1 << 16;
  constexpr int kMostMs = 100'000'000;
  constexpr std::size_t kKeyDigits = 32;
  Summons summons;
  if (take_line(text, "weftrun-daemon ") != "1") return std::nullopt;
  summons.key = take_line(text, "key ");
  summons.member = number_in(take_line(text, "member "), kMostMember);
  summons.port = number_in(take_line(text, "port "), kMostPort);
  summons.launch_ms = number_in(take_line(text, "launch-ms "), kMostMs);
  std::string_view addresses = take_line(text, "addresses ");
  while (!addresses.empty()) {
    const std::string_view one = addresses.substr(0, addresses.find(' '));
    addresses.remove_prefix(std::min(addresses.size(), one.size() + 1));
    if (!one.empty()) summons.addresses.emplace_back(one);
  }
  const bool good = summons.key.size() == kKeyDigits && summons.member >= 1 && summons.port >= 1 &&
                    summons.launch_ms >= 1 && !summons.addresses.empty() && text == "end\n";
  return good ? std::optional(std::move(summons)) : std::nullopt;
}

}  // namespace weft::run
