// The messages between weftrun and its daemons, whatever bytes come; proofs; the fan-out tree; the
// deal of ranks to hosts.
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "weftrun/hosts.hpp"
#include "weftrun/proof.hpp"
#include "weftrun/tree.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {
namespace {

constexpr WireLimits kLimits{4, 10};

/// What follows the length.
std::string body_of(const Message& message) { return encode(message).substr(kLengthBytes); }

std::optional<Message> again(const Message& message) { return decode(body_of(message), kLimits); }

/// A message of each kind, with every field that it carries at the end of its range.
std::vector<Message> one_of_each() {
  const std::string nonce(kNonceBytes, 'n');
  return {
      {.say = Say::hello, .member = 3, .text = nonce},
      {.say = Say::challenge, .text = nonce + std::string(kProofBytes, 'p')},
      {.say = Say::proof, .text = std::string(kProofBytes, '\0')},
      {.say = Say::job, .text = "spec"},
      {.say = Say::start},
      {.say = Say::signal, .value = 64},
      {.say = Say::pause},
      {.say = Say::death, .rank = 9, .value = 0xffff, .text = "how"},
      {.say = Say::left, .rank = 9},
      {.say = Say::fence_out, .value = 1, .number = UINT64_MAX, .text = "data"},
      {.say = Say::credit, .member = 3, .value = 1, .number = 1},
      {.say = Say::input, .text = "in"},
      {.say = Say::input_end},
      {.say = Say::sweep},
      {.say = Say::bye},
      {.say = Say::ready, .member = 3},
      {.say = Say::started, .rank = 9, .value = INT_MAX, .text = "core 1"},
      {.say = Say::start_failed, .rank = 9, .value = 4095, .text = "exec"},
      {.say = Say::all_started, .member = 3},
      {.say = Say::ended, .rank = 9, .value = 0xffff},
      {.say = Say::joined, .rank = 9},
      {.say = Say::finalized, .rank = 9},
      {.say = Say::aborted, .rank = 9, .value = INT_MIN, .text = "why"},
      {.say = Say::output, .member = 3, .rank = 9, .value = 1, .text = "out"},
      {.say = Say::output_end, .member = 3, .rank = 9, .value = 1},
      {.say = Say::input_credit, .value = 1, .number = 7},
      {.say = Say::fence_in, .value = 1, .number = 7, .text = "data"},
      {.say = Say::swept, .member = 3},
      {.say = Say::lost, .member = 3, .text = "how"},
      {.say = Say::said, .member = 3, .text = "line"},
      {.say = Say::modex_ask, .member = 3, .rank = 9, .number = 7},
      {.say = Say::modex_answer, .member = 3, .value = INT_MIN, .number = 7, .text = "values"},
      {.say = Say::beat},
  };
}

TEST(Wire, EveryKindComesAsItWasSent) {
  const std::vector<Message> all = one_of_each();
  EXPECT_EQ(all.size(), static_cast<std::size_t>(Say::beat) + 1);
  for (const Message& message : all) {
    const auto got = again(message);
    ASSERT_TRUE(got) << static_cast<int>(message.say);
    EXPECT_EQ(encode(*got), encode(message));
  }
}

TEST(Wire, FieldsOutOfRangeAreRefused) {
  for (const Message& good : one_of_each()) {
    const auto refused = [&](auto change) {
      Message bad = good;
      change(bad);
      EXPECT_FALSE(again(bad)) << static_cast<int>(good.say);
    };
    refused([](Message& m) { m.member = -1; });
    refused([](Message& m) { m.member = 4; });
    refused([](Message& m) { m.rank = -1; });
    refused([](Message& m) { m.rank = 10; });
    if (good.member == 0) refused([](Message& m) { m.member = 1; });
    if (good.rank == 0) refused([](Message& m) { m.rank = 1; });
    if (good.number == 0) refused([](Message& m) { m.number = 1; });
    if (good.value != INT_MIN) {
      refused([](Message& m) { m.value = -1; });
      if (good.value != INT_MAX) refused([](Message& m) { m.value++; });
    }
    if (good.text.empty()) refused([](Message& m) { m.text = "x"; });
    refused([](Message& m) { m.say = static_cast<Say>(static_cast<int>(Say::beat) + 1); });
  }
  for (const Say say : {Say::hello, Say::challenge, Say::proof})
    EXPECT_FALSE(again({.say = say, .text = std::string(kNonceBytes - 1, 'x')}));
  EXPECT_FALSE(again({.say = Say::said, .text = std::string(65537, 'x')}));
}

TEST(Wire, Lengths) {
  const std::string good = encode({}).substr(0, kLengthBytes);
  EXPECT_EQ(decode_length(good, 0), kFixedBytes);
  EXPECT_FALSE(decode_length(good.substr(1), 0));
  EXPECT_FALSE(decode_length(std::string(kLengthBytes, '\0'), kMostText));
  EXPECT_FALSE(decode_length(std::string(kLengthBytes, '\xff'), kMostText));
  const std::string text(kMostGreeting, 'x');
  const std::string long_one = encode({.text = text}).substr(0, kLengthBytes);
  EXPECT_TRUE(decode_length(long_one, kMostGreeting));
  EXPECT_FALSE(decode_length(long_one, kMostGreeting - 1));
  EXPECT_ANY_THROW(encode({.text = std::string(kMostText + 1, 'x')}));
}

JobSpec some_spec() {
  JobSpec spec;
  spec.nspace = "weft-1-2";
  spec.folder = "/";
  spec.environment = {"A=1", "B="};
  spec.agent = {"ssh", "-x"};
  spec.daemon = "/bin/weftrun";
  spec.root_node = 1;
  spec.degree = 2;
  spec.silence_ms = 1000;
  spec.launch_ms = 2000;
  spec.bind = Bind::numa;
  spec.env = {"C=2"};
  spec.apps = {{2, {"D=3"}, {"a", "b c", ""}, "/bin/a", "/tmp"}, {3, {}, {"d"}, "/bin/d", ""}};
  spec.nodes = {{"x", 0, 1}, {"y", 1, 3}, {"z", 4, 1}};
  return spec;
}

TEST(Wire, Spec) {
  const std::string bytes = encode_spec(some_spec());
  const auto got = decode_spec(bytes);
  ASSERT_TRUE(got);
  EXPECT_EQ(encode_spec(*got), bytes);
  EXPECT_EQ(got->ranks(), 5);
  // Members: weftrun is node 1, the daemons are nodes 0 and 2.
  EXPECT_EQ(got->members(), 3);
  for (const auto& [member, node] : {std::pair(0, 1), {1, 0}, {2, 2}}) {
    EXPECT_EQ(got->node_of_member(member), node);
    EXPECT_EQ(got->member_of_node(node), member);
  }
  for (const auto& [rank, member] : {std::pair(0, 1), {1, 0}, {3, 0}, {4, 2}})
    EXPECT_EQ(got->member_of_rank(rank), member);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_spec(std::string_view(bytes).substr(0, size)));
  EXPECT_FALSE(decode_spec(bytes + '\0'));
}

TEST(Wire, SpecThatDoesNotFitTogether) {
  const auto refused = [](auto change) {
    JobSpec spec = some_spec();
    change(spec);
    EXPECT_FALSE(decode_spec(encode_spec(spec)));
  };
  refused([](JobSpec& s) { s.nodes[1].first = 2; });
  refused([](JobSpec& s) { s.nodes[1].ranks = 0; });
  refused([](JobSpec& s) { s.nodes[1].ranks = INT_MAX; });
  refused([](JobSpec& s) { s.nodes[1].host = "a,b"; });
  refused([](JobSpec& s) { s.nodes.clear(); });
  refused([](JobSpec& s) { s.apps.clear(); });
  refused([](JobSpec& s) { s.apps[0].ranks = 3; });
  refused([](JobSpec& s) { s.apps[0].ranks = -2; });
  refused([](JobSpec& s) { s.apps[0].command.clear(); });
  refused([](JobSpec& s) { s.apps[0].command[0].push_back('\0'); });
  refused([](JobSpec& s) { s.root_node = 3; });
  refused([](JobSpec& s) { s.root_node = -2; });
  refused([](JobSpec& s) { s.degree = 0; });
  refused([](JobSpec& s) { s.silence_ms = 0; });
  refused([](JobSpec& s) { s.agent.clear(); });
  refused([](JobSpec& s) { s.bind = static_cast<Bind>(4); });
}

TEST(Wire, Summons) {
  const Summons summons{std::string(32, 'a'), 3, 4000, 60000, {"10.0.0.1", "::1"}};
  const std::string text = encode_summons(summons);
  const auto got = decode_summons(text);
  ASSERT_TRUE(got);
  EXPECT_EQ(encode_summons(*got), text);
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(decode_summons(std::string_view(text).substr(0, size)));
  for (const Summons& bad :
       {Summons{"short", 3, 4000, 1, {"::1"}}, Summons{summons.key, 0, 4000, 1, {"::1"}},
        Summons{summons.key, 3, 0, 1, {"::1"}}, Summons{summons.key, 3, 65536, 1, {"::1"}},
        Summons{summons.key, 3, 4000, -1, {"::1"}}, Summons{summons.key, 3, 4000, 1, {}}})
    EXPECT_FALSE(decode_summons(encode_summons(bad)));
}

// Whatever bytes come, what is taken is a message that could have been sent.
TEST(Wire, AnyBytes) {
  std::random_device device;
  const char* given = std::getenv("WEFT_STRESS_SEED");
  const auto seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : device();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  std::vector<std::string> seeds;
  for (const Message& message : one_of_each()) seeds.push_back(body_of(message));
  const std::string spec = encode_spec(some_spec());
  const std::string summons = encode_summons({std::string(32, '0'), 1, 1, 1, {"::1"}});
  const auto spoil = [&](std::string bytes) {
    for (unsigned changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
      const std::size_t at = random() % bytes.size();
      if (random() % 8 == 0)
        bytes.resize(at);
      else if (random() % 4 == 0)
        bytes.insert(at, 1, static_cast<char>(random()));
      else
        bytes[at] = static_cast<char>(random() % 3 == 0 ? random() : random() % 3 - 1);
    }
    return bytes;
  };
  for (int round = 0; round < 200'000; ++round) {
    const std::string bytes = spoil(seeds[random() % seeds.size()]);
    if (const auto message = decode(bytes, kLimits)) {
      ASSERT_EQ(body_of(*message), bytes) << "seed " << seed;
    }
    if (round % 4 != 0) continue;
    const std::string spoilt = spoil(spec);
    if (const auto got = decode_spec(spoilt)) {
      ASSERT_EQ(encode_spec(*got), spoilt) << "seed " << seed;
      for (int rank = 0; rank < got->ranks(); ++rank)
        ASSERT_LT(got->member_of_rank(rank), got->members()) << "seed " << seed;
    }
    const auto called = decode_summons(spoil(summons));
    ASSERT_TRUE(!called || (called->member > 0 && called->port > 0)) << "seed " << seed;
  }
}

TEST(Proof, DependsOnEverything) {
  const std::string key(32, 'a'), own(16, 'o'), theirs(16, 't');
  const std::string proof = proof_of(key, "parent", 1, own, theirs);
  EXPECT_EQ(proof.size(), kProofBytes);
  EXPECT_EQ(proof, proof_of(key, "parent", 1, own, theirs));
  for (const std::string& other :
       {proof_of(std::string(32, 'b'), "parent", 1, own, theirs),
        proof_of(key, "daemon", 1, own, theirs), proof_of(key, "parent", 2, own, theirs),
        proof_of(key, "parent", 1, theirs, own), proof_of(key, "parent", 1, own, own)})
    EXPECT_NE(proof, other);
  EXPECT_ANY_THROW(proof_of("no key", "parent", 1, own, theirs));
  EXPECT_NE(fresh_nonce(), fresh_nonce());
  EXPECT_EQ(fresh_nonce().size(), kNonceBytes);
  EXPECT_TRUE(same_bytes("ab", "ab"));
  EXPECT_FALSE(same_bytes("ab", "ac") || same_bytes("ab", "abc") || same_bytes("", "a"));
}

TEST(Tree, EveryMemberHasOneParentAndIsFoundFromEverywhere) {
  for (const int members : {1, 2, 3, 8, 40})
    for (const int degree : {1, 2, 3, 32, INT_MAX}) {
      const Tree tree{members, degree};
      std::vector<int> found(static_cast<std::size_t>(members), 0);
      for (int m = 0; m < members; ++m)
        for (int i = 0; i < tree.children(m); ++i) {
          const int child = tree.first_child(m) + i;
          ++found.at(static_cast<std::size_t>(child));
          EXPECT_EQ(tree.parent(child), m);
          EXPECT_EQ(tree.child_towards(m, child), child);
        }
      for (int m = 1; m < members; ++m) {
        EXPECT_EQ(found[static_cast<std::size_t>(m)], 1);
        int at = 0;
        for (int steps = 0; at != m && steps < members; ++steps) at = tree.child_towards(at, m);
        EXPECT_EQ(at, m);
      }
    }
}

std::string dealt(const std::vector<HostSlots>& hosts, int ranks, bool oversubscribe = false) {
  const NodeList list = deal(hosts, ranks, oversubscribe);
  std::string text = list.problem;
  for (const NodePart& node : list.value)
    text += node.host + ":" + std::to_string(node.first) + "+" + std::to_string(node.ranks) + " ";
  return text;
}

TEST(Hosts, Deal) {
  EXPECT_EQ(dealt({{"a", 0}, {"b", 0}}, 5), "a:0+3 b:3+2 ");
  EXPECT_EQ(dealt({{"a", 0}, {"b", 0}, {"c", 0}}, 2), "a:0+1 b:1+1 ");
  EXPECT_EQ(dealt({{"a", 1}, {"b", 2}, {"c", 0}}, 4), "a:0+1 b:1+2 c:3+1 ");
  EXPECT_EQ(dealt({{"a", 4}, {"b", 4}}, 3), "a:0+3 ");
  EXPECT_EQ(dealt({{"a", 1}, {"b", 2}}, 8, true), "a:0+4 b:4+4 ");
  EXPECT_NE(dealt({{"a", 1}, {"b", 2}}, 4).find("4 ranks, but the hosts have 3 slots"),
            std::string::npos);
}

TEST(Hosts, Lists) {
  EXPECT_EQ(parse_host_list("a,b:2,a:3").value, (std::vector<HostSlots>{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(parse_host_list("10.0.0.1,user@node-1.example").value.size(), 2U);
  EXPECT_EQ(parse_host_list("[fd00::1],user@[fe80::2%eth0]:3,[fd00::1]:2").value,
            (std::vector<HostSlots>{{"fd00::1", 3}, {"user@fe80::2%eth0", 3}}));
  for (const char* bad :
       {"",         ",",        "a,",         "a:",         "a:0",       "a:-1",
        "a:1x",     "a b",      "-o",         "a$(x)",      "a:9999999", "fd00::1",
        "[fd00::1", "fd00::1]", "[fd00::1]2", "[fd00::1]:", "[a]b",      "[]",
        "[-o]",     "[alpha]",  "node[1-4]",  "a[b:c]"})
    EXPECT_NE(parse_host_list(bad).problem, "") << bad;
  EXPECT_EQ(parse_host_file("a\nb slots=2 # x\n#c\n\t d:3 max_slots=9\r\n").value,
            (std::vector<HostSlots>{{"a", 0}, {"b", 2}, {"d", 3}}));
  EXPECT_EQ(parse_host_file("a\nb c\n").problem.substr(0, 7), "line 2:");
  EXPECT_NE(parse_host_file("\n# x\n").problem, "");
}

}  // namespace
}  // namespace weft::run
