// What all interceptors share: a transport and a port that pass everything on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weft/fabric/transport.hpp"

namespace weft::fabric {

/// Passes everything on; wrappers override what they meddle with.
class PassingPort : public Port {
 public:
  explicit PassingPort(std::unique_ptr<Port> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] uint32_t max_inline() const noexcept override { return inner_->max_inline(); }
  [[nodiscard]] uint32_t max_control() const noexcept override { return inner_->max_control(); }
  [[nodiscard]] uint32_t max_inline_to(Rank to) const noexcept override {
    return inner_->max_inline_to(to);
  }
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override {
    return inner_->try_send(to, to_port, header, payload);
  }
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override {
    return inner_->try_send_packet(to, to_port, header, part);
  }
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const OpenSend& packets) noexcept override {
    return inner_->try_send_open(to, to_port, header, packets);
  }
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override {
    return inner_->try_control(to, to_port, header);
  }
  uint32_t poll(Sink& sink, uint32_t budget) override { return inner_->poll(sink, budget); }
  [[nodiscard]] bool polls_dearly() const noexcept override { return inner_->polls_dearly(); }
  [[nodiscard]] bool rests() const noexcept override { return inner_->rests(); }
  [[nodiscard]] uint64_t far_frames() const noexcept override { return inner_->far_frames(); }
  void give_back(Loan loan) noexcept override { inner_->give_back(loan); }
  void give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept override {
    inner_->give_back_all(loan, indices);
  }
  [[nodiscard]] ReadOffer offer(Rank peer, std::span<const std::byte> memory) noexcept override {
    return inner_->offer(peer, memory);
  }
  void withdraw_offer(void* handle, bool cuts) noexcept override {
    inner_->withdraw_offer(handle, cuts);
  }
  Post try_read(Address from, uint64_t address, uint64_t key, uint64_t offset,
                std::span<std::byte> into, uint64_t token) noexcept override {
    return inner_->try_read(from, address, key, offset, into, token);
  }
  void arm() noexcept override { inner_->arm(); }
  void disarm() noexcept override { inner_->disarm(); }
  [[nodiscard]] int bell_fd() const noexcept override { return inner_->bell_fd(); }
  void ring_self() noexcept override { inner_->ring_self(); }

 protected:
  [[nodiscard]] Port& inner() noexcept { return *inner_; }

 private:
  std::unique_ptr<Port> inner_;
};

/// Passes everything on, and wraps ports with `wrap(std::unique_ptr<Port>, number)`.
template <class Wrap>
class WrappedTransport : public Transport {
 public:
  WrappedTransport(std::unique_ptr<Transport> inner, Wrap wrap)
      : inner_(std::move(inner)), wrap_(std::move(wrap)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] const Geometry& geometry() const noexcept override { return inner_->geometry(); }
  [[nodiscard]] bool reaches(Rank rank) const noexcept override { return inner_->reaches(rank); }
  [[nodiscard]] bool is_far(Rank rank) const noexcept override { return inner_->is_far(rank); }
  [[nodiscard]] std::span<std::byte> packet_area() noexcept override {
    return inner_->packet_area();
  }
  std::unique_ptr<Port> open_port(uint32_t number) override {
    return wrap_(inner_->open_port(number), number);
  }
  [[nodiscard]] std::atomic<uint32_t>* written(Rank to, uint32_t index,
                                               bool follows) noexcept override {
    return inner_->written(to, index, follows);
  }
  bool can_read(Rank peer) noexcept override { return inner_->can_read(peer); }
  [[nodiscard]] std::string why_not_read(Rank peer) const override {
    return inner_->why_not_read(peer);
  }
  Errc read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept override {
    return inner_->read_memory(peer, address, local);
  }
  Errc write_memory(Rank peer, uint64_t address,
                    std::span<const std::byte> local) noexcept override {
    return inner_->write_memory(peer, address, local);
  }
  std::span<std::byte> allocate_shared(std::size_t bytes) override {
    return inner_->allocate_shared(bytes);
  }
  bool release_shared(std::span<std::byte> memory) noexcept override {
    return inner_->release_shared(memory);
  }
  MemoryKey expose(std::span<std::byte> memory) override { return inner_->expose(memory); }
  void withdraw(const MemoryKey& key) noexcept override { inner_->withdraw(key); }
  void peer_died(Rank peer, std::string_view cause) noexcept override {
    inner_->peer_died(peer, cause);
  }
  std::optional<std::span<std::byte>> resolve(const MemoryKey& key) noexcept override {
    return inner_->resolve(key);
  }
  std::optional<std::span<std::byte>> map_peer(const MemoryKey& key) noexcept override {
    return inner_->map_peer(key);
  }

 private:
  std::unique_ptr<Transport> inner_;
  Wrap wrap_;
};

template <class Wrap>
std::unique_ptr<Transport> wrap_ports(std::unique_ptr<Transport> inner, Wrap wrap) {
  return std::make_unique<WrappedTransport<Wrap>>(std::move(inner), std::move(wrap));
}

/// A sink in between; wrappers override what they meddle with.
class PassingSink : public Sink {
 public:
  explicit PassingSink(Sink& inner) : inner_(inner) {}
  virtual ~PassingSink() = default;
  Taken on_frame(const Frame& frame) override { return inner_.on_frame(frame); }
  void on_control(const Frame& frame) override { inner_.on_control(frame); }
  void on_returned(std::span<const uint32_t> packets) override { inner_.on_returned(packets); }
  void on_read(uint64_t token, bool ok) override { inner_.on_read(token, ok); }
  void on_peer_down(Rank peer, std::string_view cause) override {
    inner_.on_peer_down(peer, cause);
  }

 protected:
  [[nodiscard]] Sink& inner() noexcept { return inner_; }

 private:
  Sink& inner_;
};

}  // namespace weft::fabric
