#include "fabric/ofi/peer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "fabric/layout.hpp"
#include "fabric/ofi/limits.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

Pages::Pages(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw Error(Errc::no_memory, fmt::format("ofi: no {} bytes of memory: {}{}", bytes_,
                                             std::strerror(errno), memory_remark()));
  base_ = static_cast<std::byte*>(at);
}

Pages::~Pages() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

namespace {

constexpr uint32_t kCardVersion = 4;
constexpr std::size_t kMostAddressBytes = 256;

/// Takes the next word off the front of `text`.
std::string_view next_word(std::string_view& text) {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

uint32_t next_number(std::string_view& text) {
  const std::string_view word = next_word(text);
  uint32_t number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size())
    throw Error(Errc::protocol, "its address is no address");
  return number;
}

std::vector<std::byte> next_bytes(std::string_view& text, std::size_t least, std::size_t most) {
  const std::string_view word = next_word(text);
  if (word.size() % 2 != 0 || word.size() < 2 * least || word.size() > 2 * most)
    throw Error(Errc::protocol, "its address is no address");
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < word.size(); i += 2) {
    uint8_t byte = 0;
    const auto read = std::from_chars(word.data() + i, word.data() + i + 2, byte, 16);
    if (read.ec != std::errc() || read.ptr != word.data() + i + 2)
      throw Error(Errc::protocol, "its address is no address");
    bytes.push_back(std::byte{byte});
  }
  return bytes;
}

void append_bytes(std::string& text, std::span<const std::byte> bytes) {
  text += ' ';
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
}

}  // namespace

std::string Card::text() const {
  const Geometry& g = geometry;
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {}", kCardVersion, g.ports, g.lane_cells,
                  g.control_cells, g.packet_bytes, g.packets, inline_cells, tag_bytes,
                  sorts_by_size ? 1 : 0, host.empty() ? "?" : host);
  append_bytes(text, salt);
  for (const auto& address : addresses) append_bytes(text, address);
  return text;
}

Card Card::parse(std::string_view text) {
  if (next_number(text) != kCardVersion)
    throw Error(Errc::protocol, "its address is of another version");
  Card card;
  Geometry& g = card.geometry;
  for (uint32_t* const field : {&g.ports, &g.lane_cells, &g.control_cells, &g.packet_bytes,
                                &g.packets, &card.inline_cells, &card.tag_bytes})
    *field = next_number(text);
  card.sorts_by_size = next_number(text) != 0;
  check_geometry(g, card.inline_cells);
  card.host = next_word(text);
  const auto salt = next_bytes(text, card.salt.size(), card.salt.size());
  std::copy(salt.begin(), salt.end(), card.salt.begin());
  for (uint32_t port = 0; port < g.ports; ++port)
    card.addresses.push_back(next_bytes(text, 1, kMostAddressBytes));
  return card;
}

}  // namespace weft::fabric::ofi
