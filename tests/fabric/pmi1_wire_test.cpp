// The PMI-1 wire: what is written comes back, and what makes no sense is refused in words.
#include "fabric/pmi1_wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Body>
std::string refusal(Body body, Errc code = Errc::launcher) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

std::string all_bytes() {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  return bytes;
}

Pmi1Space space(int keys = 64, int values = 1024, const std::string& name = "kvs") {
  return pmi1_space(parse_pmi1("cmd=maxes kvsname_max=256 keylen_max=" + std::to_string(keys) +
                               " vallen_max=" + std::to_string(values)),
                    parse_pmi1("cmd=my_kvsname kvsname=" + name));
}

std::string joined(const std::vector<std::string>& pieces) {
  const Pmi1Head head = parse_pmi1_head(pieces.front());
  EXPECT_EQ(head.pieces, static_cast<int>(pieces.size()));
  std::string text = head.begin;
  for (std::size_t i = 1; i < pieces.size(); ++i) text += pieces[i];
  return join_pmi1(head, text);
}

TEST(Pmi1Line, IsTakenApartAsServersWriteIt) {
  const Pmi1Message hydra = parse_pmi1("cmd=get_result rc=0 msg=success value=(vector,(0,1,2))");
  EXPECT_EQ(hydra.command, "get_result");
  EXPECT_EQ(pmi1_number(hydra, "rc", 0, 0), 0);
  EXPECT_EQ(pmi1_word(hydra, "value"), "(vector,(0,1,2))");
  EXPECT_EQ(parse_pmi1("cmd=barrier_out").fields.size(), 0U);
  EXPECT_EQ(pmi1_word(parse_pmi1("cmd=x value=a=b=c"), "value"), "a=b=c");
  // A sentence that the server did not quote, and blanks.
  const Pmi1Message words = parse_pmi1("cmd=put_result  rc=-1 msg=no such space value=unknown ");
  EXPECT_EQ(pmi1_number(words, "rc", -9, 9), -1);
  EXPECT_EQ(pmi1_word(words, "value"), "unknown");
  EXPECT_EQ(parse_pmi1("cmd=abort said so").command, "abort");
}

TEST(Pmi1Line, IsWrittenInTheSameForm) {
  EXPECT_EQ(pmi1_line("finalize"), "cmd=finalize");
  EXPECT_EQ(pmi1_line("get", {{"kvsname", "a"}, {"key", "b"}}), "cmd=get kvsname=a key=b");
}

TEST(Pmi1Line, WithoutSenseIsRefused) {
  for (const std::string line :
       {"", "cmd", "cmd=", "cmd= rc=0", "rc=0", "rc=0 cmd=x", "mcmd=spawn", "cmd=x =y",
        "cmd=x a=1 a=2", "cmd=x\ta=1", "cmd=x a=\x7f", "cmd=x a=\xc3\xa4"})
    EXPECT_THAT(refusal([&] { parse_pmi1(line); }), HasSubstr("PMI-1")) << line;
  refusal([] { parse_pmi1(std::string("cmd=x a=\0b", 10)); });
  refusal([] { parse_pmi1("cmd=x a=" + std::string(kPmi1MostAnswer, 'a')); });
}

TEST(Pmi1Line, NumbersAndWordsAreChecked) {
  const Pmi1Message message =
      parse_pmi1("cmd=m a=12 b= c=1x d=-3 e=99999999999999999999 f=0x1 g=+1");
  EXPECT_EQ(pmi1_number(message, "a", 12, 12), 12);
  EXPECT_EQ(pmi1_number(message, "d", -3, 0), -3);
  refusal([&] { pmi1_number(message, "a", 13, 20); });
  refusal([&] { pmi1_number(message, "a", 0, 11); });
  for (const char* key : {"b", "c", "e", "f", "g", "absent"})
    EXPECT_THAT(refusal([&] { pmi1_number(message, key, -100, 100); }), HasSubstr(key));
  EXPECT_THAT(refusal([&] { pmi1_word(message, "b"); }), HasSubstr("'m' without b"));
}

TEST(Pmi1Value, EveryByteComesBack) {
  const std::string bytes = all_bytes();
  const std::string text = encode_pmi1(bytes);
  for (const char c : text) EXPECT_TRUE(c > ' ' && c <= '~' && c != '=' && c != ';') << c;
  EXPECT_EQ(decode_pmi1(text), bytes);
  EXPECT_EQ(encode_pmi1("host-1.net:80/a+b,c"), "host-1.net:80/a+b,c");
  EXPECT_EQ(encode_pmi1("a_b c="), "a_5fb_20c_3d");
}

TEST(Pmi1Value, WhatIsNeverWrittenIsNotRead) {
  for (const char* text : {"_", "_1", "_1G", "_g1", "_5F", "_66", "a b", "a=b", "a_2", "(vector)"})
    refusal([&] { decode_pmi1(text); });
}

TEST(Pmi1Value, GoesInPiecesThatFitAndComesBack) {
  std::mt19937 random(20);
  for (const std::size_t most : {64U, 65U, 100U, 925U}) {
    for (std::size_t size = 0; size < 3 * most; ++size) {
      std::string value(size, 'x');
      for (char& c : value) c = random() % 4 == 0 ? static_cast<char>(random()) : 'v';
      const std::vector<std::string> pieces = split_pmi1(value, most);
      for (const std::string& piece : pieces) {
        ASSERT_FALSE(piece.empty());
        ASSERT_LE(piece.size(), most);
      }
      ASSERT_EQ(joined(pieces), value);
    }
  }
  EXPECT_EQ(split_pmi1("", 64), std::vector<std::string>{"1:0:"});
  EXPECT_THAT(refusal([] { split_pmi1(std::string((1 << 24) + 1, 'x'), 900); }, Errc::bad_argument),
              HasSubstr("16777217 bytes"));
}

TEST(Pmi1Value, ThatWasCutIsFoundOut) {
  const std::vector<std::string> pieces = split_pmi1(std::string(200, 'x'), 100);
  ASSERT_EQ(pieces.size(), 3U);
  std::vector<std::string> cut = pieces;
  cut[1].pop_back();
  EXPECT_THAT(refusal([&] { joined(cut); }), HasSubstr("200 characters came as 199"));
  cut = pieces;
  cut[2] += 'x';
  refusal([&] { joined(cut); });
  for (const char* head : {"", "1", "1:", "1:1", ":1:", "0:0:", "2:0:", "1:2:a", "1:1:ab", "-1:1:a",
                           "1:-1:", "2:1:a", "3:1:", "1:99999999999:", "1x:1:a", " 1:1:a"})
    EXPECT_THAT(refusal([&] { parse_pmi1_head(head); }), HasSubstr("begins with")) << head;
}

TEST(Pmi1Space, LeavesRoomInEveryLine) {
  for (const int values : {80, 512, 1024, 65536}) {
    for (const std::size_t name : {1U, 50U, 256U}) {
      const Pmi1Space here = space(64, values, std::string(name, 'k'));
      EXPECT_EQ(here.most_key, 63U);
      EXPECT_LT(here.most_value, static_cast<std::size_t>(values));
      const std::string line = pmi1_line("put", {{"kvsname", here.name},
                                                 {"key", std::string(here.most_key, 'k')},
                                                 {"value", std::string(here.most_value, 'v')}});
      EXPECT_LT(line.size(), kPmi1MostLine);
    }
  }
  EXPECT_EQ(space(32, 65).most_value, 64U);
}

TEST(Pmi1Space, OfAServerThatTakesTooLittleIsRefused) {
  for (const auto& [keys, values] : {std::pair{31, 1024}, {64, 64}, {0, 1024}, {64, 0}, {-1, -1}})
    refusal([&, k = keys, v = values] { space(k, v); });
  refusal([] { space(64, 1024, ""); });
  refusal([] { space(64, 1024, std::string(900, 'k')); });
  refusal([] { pmi1_space(parse_pmi1("cmd=maxes"), parse_pmi1("cmd=my_kvsname kvsname=a")); });
}

TEST(Pmi1Key, NamesRankGenerationAndPiece) {
  const Pmi1Space here = space();
  EXPECT_EQ(pmi1_key(here, Rank{3}, "a b", 2, 1), "w3.2.1.a_20b");
  EXPECT_NE(pmi1_key(here, Rank{1}, "1", 1, 1), pmi1_key(here, Rank{11}, "1", 1, 1));
  EXPECT_THAT(
      refusal([&] { pmi1_key(here, Rank{0}, std::string(60, 'k'), 1, 0); }, Errc::bad_argument),
      HasSubstr("60 characters"));
}

TEST(Pmi1Mapping, GivesEachRankItsNode) {
  EXPECT_THAT(parse_pmi1_mapping("(vector,(0,1,2))", 2), ElementsAre(0, 0));
  EXPECT_THAT(parse_pmi1_mapping("(vector,(0,2,2))", 4), ElementsAre(0, 0, 1, 1));
  // Begun again until all have one, as Hydra abbreviates it.
  EXPECT_THAT(parse_pmi1_mapping("(vector,(0,1,1))", 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(parse_pmi1_mapping("(vector,(0,2,1))", 5), ElementsAre(0, 1, 0, 1, 0));
  // Numbers with holes are counted anew.
  EXPECT_THAT(parse_pmi1_mapping("(vector,(7,1,2),(3,2,1))", 4), ElementsAre(0, 0, 1, 2));
  EXPECT_THAT(parse_pmi1_mapping("(vector,(0,4194304,4194304))", 2), ElementsAre(0, 0));
}

TEST(Pmi1Mapping, WithoutSenseIsRefused) {
  for (const char* text :
       {"", "(vector)", "(vector,0)", "(vector,)", "(vector,())", "(vector,(0,1))",
        "(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(-1,1,1))", "(vector,(0,1,1)",
        "(vector,(0,1,1),)", "(vector,(0,1,1)(1,1,1))", "(vector,(0,1,1),(1,1,x))",
        "(vector,(0,1,1,1))", "(vector,(0,99999999999,1))", "(matrix,(0,1,1))", "vector,(0,1,1)",
        "(vector,(0,1,1)))", "(vector,((0,1,1))"})
    EXPECT_THAT(refusal([&] { parse_pmi1_mapping(text, 2); }), HasSubstr("PMI_process_mapping"))
        << text;
}

TEST(Pmi1Bytes, FromOutsideNeverDoMoreThanThrow) {
  // What a server might send, at random: half of it made of the pieces of good lines.
  std::mt19937 random(4);
  const std::vector<std::string> parts = {
      "cmd=", "get_result", " ",       "=", "rc=", "0", "-1", "value=",
      "_",    "(vector,",   "(0,1,1)", ")", ":",   "1", ",",  std::string(1, '\0')};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n)
      text += random() % 8 == 0 ? std::string(1, static_cast<char>(random()))
                                : parts[random() % parts.size()];
    const auto harmless = [](auto body) {
      try {
        body();
      } catch (const Error&) {
      }
    };
    harmless([&] { pmi1_number(parse_pmi1(text), "rc", -1, 1); });
    harmless([&] { decode_pmi1(text); });
    harmless([&] { join_pmi1(parse_pmi1_head(text), text); });
    harmless([&] { EXPECT_EQ(parse_pmi1_mapping(text, 3).size(), 3U); });
  }
}

}  // namespace
}  // namespace weft::fabric
