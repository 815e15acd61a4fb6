// How weftrun and a daemon show each other that they know the job's key, without saying it.
#include "weftrun/proof.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <stdexcept>

#include "weftrun/wire.hpp"

namespace weft::run {
namespace {

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string text_of(const auto& bytes) { return {bytes.begin(), bytes.end()}; }

void make_ready() {
  if (sodium_init() < 0) throw std::runtime_error("libsodium cannot be made ready");
}

}  // namespace

std::string proof_of(std::string_view key, std::string_view role, int member, std::string_view own,
                     std::string_view theirs) {
  static_assert(kProofBytes >= crypto_generichash_BYTES_MIN);
  if (key.size() < crypto_generichash_KEYBYTES_MIN || key.size() > crypto_generichash_KEYBYTES_MAX)
    throw std::runtime_error("a job's key has 32 hexadecimal digits");
  make_ready();
  const std::string text = fmt::format("weftrun {} {} {}{}", role, member, own, theirs);
  std::array<unsigned char, kProofBytes> proof;
  // BLAKE2b with a key is a message authentication code by itself.
  crypto_generichash(proof.data(), proof.size(), raw(text), text.size(), raw(key), key.size());
  return text_of(proof);
}

std::string fresh_nonce() {
  make_ready();
  std::array<unsigned char, kNonceBytes> nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return text_of(nonce);
}

bool same_bytes(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace weft::run
