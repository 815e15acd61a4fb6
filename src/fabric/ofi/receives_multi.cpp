// A few large buffers, in which messages land one after the other (FI_MULTI_RECV): one posting for
// many messages, and short ones take no more memory than they have bytes.
//
// A provider lets go of a buffer when what is left of it could not take the largest message. Those
// of libfabric's TCP say so with the last message that they *began*: on other connections earlier
// ones may still be on their way into it. So a buffer is used again when as many bytes have come
// as the provider gave away of it (these providers leave no gaps), and until then another takes
// its place. Of a message that broke off nobody tells the length: its buffer is given up once the
// provider lets go of it. Its address space stays, so that what still comes there does no harm, is
// not read, and is sent again.
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "fabric/ofi/pages.hpp"
#include "fabric/ofi/receive_pool.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr std::size_t kPosted = 4;         ///< buffers that share the memory
constexpr std::size_t kLeastMessages = 4;  ///< largest ones that a buffer takes

class MultiReceives final : public ReceivePool {
 public:
  MultiReceives(Endpoint& endpoint, const ReceiveSetup& setup)
      : endpoint_(endpoint),
        least_room_(setup.largest()),
        bytes_(std::max<std::size_t>(setup.memory / kPosted, kLeastMessages * setup.largest())) {
    buffers_.reserve(2 * kPosted);
    spare_.reserve(2 * kPosted);
  }

  [[nodiscard]] std::size_t least_room() const noexcept override { return least_room_; }
  void start() override { post_waiting(); }
  void post_waiting() noexcept override {
    while (posted_ < kPosted) {
      Buffer* const one = take_spare();
      if (one == nullptr) return;
      if (endpoint_.receive_many({one->pages.base(), bytes_}, one->descriptor, one->context) != 0) {
        spare_.push_back(one);
        return;
      }
      ++posted_;
    }
  }
  [[nodiscard]] bool has_waiting() const noexcept override { return posted_ < kPosted; }

  [[nodiscard]] std::span<const std::byte> landed(const fi_cq_data_entry& entry) noexcept override {
    if (buffer_of(entry.op_context).is_given_up) return {};
    return {static_cast<const std::byte*>(entry.buf), entry.len};
  }
  void finish(const fi_cq_data_entry& entry) noexcept override {
    Buffer& one = buffer_of(entry.op_context);
    const bool is_last = (entry.flags & FI_MULTI_RECV) != 0;
    if ((entry.flags & FI_RECV) != 0) {
      const auto* const at = static_cast<const std::byte*>(entry.buf);
      one.came += entry.len;
      one.end = std::max(one.end, static_cast<std::size_t>(at - one.pages.base()) + entry.len);
      one.knows_end |= is_last;
    }
    if (is_last) let_go(one);
    if (one.is_let_go) settle(one);
  }
  [[nodiscard]] bool fail(const fi_cq_err_entry& error) noexcept override {
    const auto found = std::find_if(buffers_.begin(), buffers_.end(), [&](const auto& one) {
      return &one->context == error.op_context;
    });
    if (found == buffers_.end()) return false;
    Buffer& one = **found;
    one.broke_off = true;
    // One that was too long for the room there always is ends the buffer; not all say so.
    if ((error.flags & FI_MULTI_RECV) != 0 || error.err == FI_ETRUNC) let_go(one);
    if (one.is_let_go) settle(one);
    return true;
  }

 private:
  struct Buffer {
    fi_context2 context;  // first: a completion gives its address
    Pages pages;
    void* descriptor = nullptr;
    std::size_t came = 0;      ///< bytes
    std::size_t end = 0;       ///< of what came, where the last of it ends
    bool knows_end = false;    ///< nothing begins behind that
    bool is_let_go = false;    ///< the provider begins no more messages in it
    bool broke_off = false;    ///< one of its messages did
    bool is_given_up = false;  ///< never used again
  };
  static Buffer& buffer_of(void* context) noexcept { return *static_cast<Buffer*>(context); }

  /// Null: no memory now.
  Buffer* take_spare() noexcept {
    if (spare_.empty()) {
      try {
        auto made = std::make_unique<Buffer>();
        made->pages = Pages(bytes_);
        made->descriptor = endpoint_.enter({made->pages.base(), made->pages.size()});
        spare_.reserve(buffers_.size() + 1);
        buffers_.push_back(std::move(made));
        spare_.push_back(buffers_.back().get());
      } catch (const std::exception&) {
        return nullptr;
      }
    }
    Buffer* const one = spare_.back();
    spare_.pop_back();
    return one;
  }

  void let_go(Buffer& one) noexcept {
    if (!std::exchange(one.is_let_go, true)) --posted_;
  }

  /// Of a buffer that the provider let go of: uses it again if nothing is on its way into it.
  void settle(Buffer& one) noexcept {
    if (one.broke_off) {
      one.is_given_up = true;
      if (!endpoint_.registers()) ::madvise(one.pages.base(), one.pages.size(), MADV_DONTNEED);
    } else if (one.came == one.end && (one.knows_end || bytes_ - one.end < least_room_)) {
      one.came = one.end = 0;
      one.knows_end = one.is_let_go = false;
      spare_.push_back(&one);
    }
    post_waiting();
  }

  Endpoint& endpoint_;
  const std::size_t least_room_, bytes_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Buffer*> spare_;  // room for all
  std::size_t posted_ = 0;
};

}  // namespace

std::unique_ptr<ReceivePool> make_multi_receives(Endpoint& endpoint, const ReceiveSetup& setup) {
  return std::make_unique<MultiReceives>(endpoint, setup);
}

}  // namespace weft::fabric::ofi
