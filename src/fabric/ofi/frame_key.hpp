// Tags that only holders of the job's key can make: `fabric.security=mac`.
//
// Purpose: what a stranger sends, or what was changed on its way, is not believed; what was
// recorded and sent again has a number that came before, or says what is known already.
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

  /// `secret`: the job's. Throws Error(no_permission) if the library cannot be made ready.
  explicit FrameKey(std::string_view secret);
  ~FrameKey();
  FrameKey(const FrameKey&) = delete;
  FrameKey& operator=(const FrameKey&) = delete;

  /// Of a frame's header with its body, and its packet, sent to port `port` of rank `rank`.
  [[nodiscard]] Tag tag(uint32_t rank, uint32_t port, std::span<const std::byte> head,
                        std::span<const std::byte> packet) const noexcept;
  /// Whether two tags are the same, in a time that does not tell where they differ.
  [[nodiscard]] static bool is_same(const Tag& tag, std::span<const std::byte> other) noexcept;

 private:
  std::array<unsigned char, 32> key_;
};

}  // namespace weft::fabric::ofi
