#include "fabric/ofi/frame_key.hpp"

#include <sodium.h>

#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr std::string_view kPurpose = "weft.fabric.ofi.frames.2";

const unsigned char* raw(const std::byte* at) { return reinterpret_cast<const unsigned char*>(at); }
const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

static_assert(FrameKey::kTagBytes == crypto_generichash_BYTES_MIN);

// BLAKE2b with a key is a message authentication code by itself.
FrameKey::FrameKey(std::string_view secret) {
  static_assert(sizeof key_ == crypto_generichash_KEYBYTES);
  if (sodium_init() < 0) throw Error(Errc::no_permission, "ofi: libsodium cannot be made ready");
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key_.size());
  crypto_generichash_update(&state, raw(kPurpose), kPurpose.size());
  crypto_generichash_update(&state, raw(secret), secret.size());
  crypto_generichash_final(&state, key_.data(), key_.size());
}

FrameKey::~FrameKey() { sodium_memzero(key_.data(), key_.size()); }

FrameKey::Salt FrameKey::fresh_salt() noexcept {
  Salt salt;
  randombytes_buf(salt.data(), salt.size());
  return salt;
}

FrameKey::Tag FrameKey::tag(const About& about, std::span<const std::byte> head,
                            std::span<const std::byte> packet) const noexcept {
  static_assert(sizeof about == 32);  // nothing in between
  const std::span<const std::byte> to_bytes = std::as_bytes(std::span(&about, 1));
  crypto_generichash_state state;
  crypto_generichash_init(&state, key_.data(), key_.size(), kTagBytes);
  for (const auto piece : {to_bytes, head, packet})
    crypto_generichash_update(&state, raw(piece.data()), piece.size());
  Tag made;
  crypto_generichash_final(&state, reinterpret_cast<unsigned char*>(made.data()), made.size());
  return made;
}

bool FrameKey::is_same(const Tag& tag, std::span<const std::byte> other) noexcept {
  return other.size() == tag.size() && sodium_memcmp(tag.data(), other.data(), tag.size()) == 0;
}

}  // namespace weft::fabric::ofi
