// How weftrun and a daemon show each other that they know the job's key, without saying it.
#include "weftrun/proof.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <stdexcept>

#include "fabric/job_secret.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {
namespace {

/// Up to eight bytes as a number, the lowest first.
uint64_t number_of(std::string_view bytes) {
  uint64_t number = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return number;
}

// NOLINTBEGIN(readability-magic-numbers): the algorithm's constants
struct SipState {
  uint64_t a, b, c, d;

  void rounds(int count) {
    for (; count > 0; --count) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  }
  void take(uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  }
  [[nodiscard]] uint64_t folded() const { return a ^ b ^ c ^ d; }
};

}  // namespace

std::array<uint64_t, 2> sip_hash(const std::array<uint64_t, 2>& key, std::string_view text) {
  SipState state{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d ^ 0xee,
                 key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const auto length = static_cast<uint64_t>(text.size());
  for (; text.size() >= 8; text.remove_prefix(8)) state.take(number_of(text.substr(0, 8)));
  state.take(number_of(text) | length << 56);
  std::array<uint64_t, 2> hash;
  state.c ^= 0xee;
  state.rounds(4);
  hash[0] = state.folded();
  state.b ^= 0xdd;
  state.rounds(4);
  hash[1] = state.folded();
  return hash;
}
// NOLINTEND(readability-magic-numbers)

namespace {

uint64_t hex_number(std::string_view digits) {
  uint64_t number = 0;
  const auto [stop, bad] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (bad != std::errc() || stop != digits.data() + digits.size())
    throw std::runtime_error("a job's key has 32 hexadecimal digits");
  return number;
}

}  // namespace

std::string proof_of(std::string_view key, std::string_view role, int member, std::string_view own,
                     std::string_view theirs) {
  constexpr std::size_t kHalf = 16;
  const std::array<uint64_t, 2> words{hex_number(key.substr(0, kHalf)),
                                      hex_number(key.substr(kHalf))};
  const std::string text = fmt::format("weftrun {} {} {}{}", role, member, own, theirs);
  std::string proof;
  for (const uint64_t word : sip_hash(words, text))
    for (unsigned bit = 0; bit < 64; bit += 8) proof.push_back(static_cast<char>(word >> bit));
  return proof;
}

std::string fresh_nonce() {
  const std::string digits = fabric::random_hex(kNonceBytes);
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(hex_number(std::string_view(digits).substr(i, 2))));
  return bytes;
}

bool same_bytes(std::string_view a, std::string_view b) noexcept {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace weft::run
