// Tags that only holders of the job's key can make: `fabric.security=mac`.
//
// Purpose: what a stranger sends, or what was changed on its way, is not believed. Numbers of 64
// bits are part of it, so what was recorded and is sent again has one that came before; and random
// bytes that its receiver's transport published, so that the job's next one does not believe it
// either.
// Owner and lifetime: the OfiTransport's.
// Who may call: anyone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::fabric::ofi {

class FrameKey {
 public:
  static constexpr std::size_t kTagBytes = 16;
  using Tag = std::array<std::byte, kTagBytes>;
  /// What tells a transport from others of its rank.
  using Salt = std::array<std::byte, 16>;

  /// `secret`: the job's. Throws Error(no_permission) if the library cannot be made ready.
  explicit FrameKey(std::string_view secret);
  ~FrameKey();
  FrameKey(const FrameKey&) = delete;
  FrameKey& operator=(const FrameKey&) = delete;

  /// What a tag says besides the frame: to whom it was sent, and its whole number.
  struct About {
    uint32_t rank, port;
    uint64_t number;
    Salt salt;  ///< the receiver's
  };
  [[nodiscard]] static Salt fresh_salt() noexcept;
  /// Of a frame's header with its body, and its packet.
  [[nodiscard]] Tag tag(const About& about, std::span<const std::byte> head,
                        std::span<const std::byte> packet) const noexcept;
  /// Whether two tags are the same, in a time that does not tell where they differ.
  [[nodiscard]] static bool is_same(const Tag& tag, std::span<const std::byte> other) noexcept;

 private:
  std::array<unsigned char, 32> key_;
};

}  // namespace weft::fabric::ofi
