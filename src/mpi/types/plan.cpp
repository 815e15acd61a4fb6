// Runs pack plans: whole layouts in tight loops, cut ones from any byte to any byte.
#include "mpi/types/plan.hpp"

#include <algorithm>

#include "mpi/types/strided_copy.hpp"

namespace weft::mpi {
namespace {

/// Moves a window of the packed form. `kPack`: to `packed`, else from it.
template <bool kPack>
class Mover {
 public:
  explicit Mover(std::byte* packed) noexcept : packed_(packed) {}

  /// `todo` bytes, from byte `skip` on, of what `loop` makes of `layout` from its loop number
  /// `level` on.
  void part(const Loop& loop, const Layout& layout, std::size_t level, uintptr_t base, int64_t skip,
            int64_t todo) noexcept {
    if (skip != 0) {
      base += static_cast<uintptr_t>(skip / loop.bytes * loop.stride);
      skip %= loop.bytes;
      if (skip != 0) {
        const int64_t bytes = std::min(loop.bytes - skip, todo);
        inner_part(layout, level, base, skip, bytes);
        todo -= bytes;
        base += static_cast<uintptr_t>(loop.stride);
      }
    }
    const int64_t count = todo / loop.bytes;
    whole_loop(loop, count, layout, level, base);
    todo -= count * loop.bytes;
    if (todo != 0) {
      inner_part(layout, level, base + static_cast<uintptr_t>(count * loop.stride), 0, todo);
    }
  }

 private:
  void whole(const Layout& layout, std::size_t level, uintptr_t base) noexcept {
    if (level == layout.loops.size()) return whole_core(*layout.core, base);
    const Loop& loop = layout.loops[level];
    whole_loop(loop, loop.count, layout, level + 1, base);
  }

  void whole_loop(const Loop& loop, int64_t count, const Layout& layout, std::size_t level,
                  uintptr_t base) noexcept {
    if (level == layout.loops.size() && layout.core->kind == Core::Kind::block) {
      copy_strided<kPack>(base, loop.stride, loop.bytes, count, packed_);
      packed_ += count * loop.bytes;
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      whole(layout, level, base);
      base += static_cast<uintptr_t>(loop.stride);
    }
  }

  void whole_core(const Core& core, uintptr_t base) noexcept {
    switch (core.kind) {
      case Core::Kind::block:
        return copy(base, core.length);
      case Core::Kind::blocks:
        for (const Run& block : core.blocks) {
          copy_small_block<kPack>(base + static_cast<uintptr_t>(block.offset), packed_,
                                  block.length);
          packed_ += block.length;
        }
        return;
      case Core::Kind::items:
        for (const Item& item : core.items) {
          whole(*item.layout, 0, base + static_cast<uintptr_t>(item.offset + item.layout->offset));
        }
    }
  }

  void inner_part(const Layout& layout, std::size_t level, uintptr_t base, int64_t skip,
                  int64_t todo) noexcept {
    if (level != layout.loops.size()) {
      return part(layout.loops[level], layout, level + 1, base, skip, todo);
    }
    const Core& core = *layout.core;
    switch (core.kind) {
      case Core::Kind::block:
        return copy(base + static_cast<uintptr_t>(skip), todo);
      case Core::Kind::blocks:
        return part_of_blocks(core, base, skip, todo);
      case Core::Kind::items:
        return part_of_items(core, base, skip, todo);
    }
  }

  /// The entry of a list in which byte `skip` lies.
  template <class Entry>
  static const Entry* entry_at(const std::vector<Entry>& list, int64_t skip) noexcept {
    const auto after = std::upper_bound(list.begin(), list.end(), skip,
                                        [](int64_t at, const Entry& e) { return at < e.at; });
    return &*(after - 1);
  }

  void part_of_blocks(const Core& core, uintptr_t base, int64_t skip, int64_t todo) noexcept {
    const Run* block = core.length != 0 ? &core.blocks[static_cast<std::size_t>(skip / core.length)]
                                        : entry_at(core.blocks, skip);
    skip -= block->at;
    for (; todo != 0; ++block) {
      const int64_t bytes = std::min(block->length - skip, todo);
      copy(base + static_cast<uintptr_t>(block->offset + skip), bytes);
      todo -= bytes;
      skip = 0;
    }
  }

  void part_of_items(const Core& core, uintptr_t base, int64_t skip, int64_t todo) noexcept {
    const Item* item = entry_at(core.items, skip);
    skip -= item->at;
    for (; todo != 0; ++item) {
      const Layout& layout = *item->layout;
      const int64_t bytes = std::min(layout.bytes - skip, todo);
      const uintptr_t at = base + static_cast<uintptr_t>(item->offset + layout.offset);
      if (bytes == layout.bytes) {
        whole(layout, 0, at);
      } else {
        inner_part(layout, 0, at, skip, bytes);
      }
      todo -= bytes;
      skip = 0;
    }
  }

  void copy(uintptr_t address, int64_t bytes) noexcept {
    copy_block<kPack>(address, packed_, static_cast<std::size_t>(bytes));
    packed_ += bytes;
  }

  std::byte* packed_;
};

}  // namespace

void PackPlan::pack(const void* buffer, int64_t count, int64_t offset, std::byte* packed,
                    int64_t bytes) const noexcept {
  if (bytes == 0) return;
  Mover<true>(packed).part(
      {count, extent_, layout_.bytes}, layout_, 0,
      reinterpret_cast<uintptr_t>(buffer) + static_cast<uintptr_t>(layout_.offset), offset, bytes);
}

void PackPlan::unpack(void* buffer, int64_t count, int64_t offset, const std::byte* packed,
                      int64_t bytes) const noexcept {
  if (bytes == 0) return;
  // Only read from.
  Mover<false>(const_cast<std::byte*>(packed))
      .part({count, extent_, layout_.bytes}, layout_, 0,
            reinterpret_cast<uintptr_t>(buffer) + static_cast<uintptr_t>(layout_.offset), offset,
            bytes);
}

}  // namespace weft::mpi
