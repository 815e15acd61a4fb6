// Compiles types to layouts: merges what touches, keeps loops as loops.
#include "mpi/types/layout.hpp"

#include <utility>

#include "mpi/types/builder.hpp"
#include "mpi/types/plan.hpp"
#include "mpi/types/recipe.hpp"

namespace weft::mpi {
namespace {

/// Lists of blocks up to this length are taken apart when they become parts of a longer one.
constexpr std::size_t kFlatten = 16;

Layout block(int64_t offset, int64_t length) {
  Layout layout;
  if (length == 0) return layout;
  auto core = std::make_shared<Core>();
  core->length = length;
  layout.offset = offset;
  layout.bytes = length;
  layout.core = std::move(core);
  return layout;
}

/// `count` times the same, `stride` apart.
Layout repeat(const Layout& layout, int64_t count, int64_t stride) {
  if (count == 0 || layout.bytes == 0) return {};
  if (count == 1) return layout;
  if (layout.is_block() && stride == layout.bytes) {
    return block(layout.offset, layout.bytes * count);
  }
  Layout result = layout;
  result.bytes = layout.bytes * count;
  if (!result.loops.empty() && stride == result.loops[0].count * result.loops[0].stride) {
    result.loops[0].count *= count;
  } else {
    result.loops.insert(result.loops.begin(), {count, stride, layout.bytes});
  }
  return result;
}

/// Layouts one after the other.
class Sequence {
 public:
  void add(int64_t offset, const std::shared_ptr<const Layout>& layout) {
    if (layout->bytes == 0) return;
    if (layout->is_block()) {
      add_block(offset + layout->offset, layout->bytes);
    } else if (layout->loops.empty() && layout->core->kind == Core::Kind::blocks &&
               layout->core->blocks.size() <= kFlatten) {
      for (const Run& each : layout->core->blocks) {
        add_block(offset + layout->offset + each.offset, each.length);
      }
    } else {
      flush();
      items_.push_back({offset, at_, layout});
      at_ += layout->bytes;
    }
  }

  Layout finish() {
    if (items_.empty()) return blocks_layout();
    flush();
    if (items_.size() == 1) {
      Layout only = *items_[0].layout;
      only.offset += items_[0].offset;
      return only;
    }
    Layout layout;
    layout.bytes = at_;
    auto core = std::make_shared<Core>();
    core->kind = Core::Kind::items;
    core->items = std::move(items_);
    layout.core = std::move(core);
    return layout;
  }

 private:
  void add_block(int64_t offset, int64_t length) {
    if (!blocks_.empty() && blocks_.back().offset + blocks_.back().length == offset) {
      blocks_.back().length += length;
    } else {
      blocks_.push_back({offset, length, block_bytes_});
    }
    block_bytes_ += length;
  }

  /// What the blocks gathered so far amount to.
  Layout blocks_layout() {
    if (blocks_.empty()) return {};
    if (blocks_.size() == 1) return block(blocks_[0].offset, blocks_[0].length);
    const int64_t length = blocks_[0].length;
    const int64_t stride = blocks_[1].offset - blocks_[0].offset;
    bool same_length = true;
    bool regular = true;
    for (std::size_t i = 1; i < blocks_.size(); ++i) {
      same_length = same_length && blocks_[i].length == length;
      regular = regular && blocks_[i].offset - blocks_[i - 1].offset == stride;
    }
    if (same_length && regular) {
      return repeat(block(blocks_[0].offset, length), static_cast<int64_t>(blocks_.size()), stride);
    }
    Layout layout;
    layout.bytes = block_bytes_;
    auto core = std::make_shared<Core>();
    core->kind = Core::Kind::blocks;
    core->length = same_length ? length : 0;
    core->blocks = std::move(blocks_);
    core->blocks.shrink_to_fit();
    layout.core = std::move(core);
    return layout;
  }

  /// Turns the blocks gathered so far into an item.
  void flush() {
    if (blocks_.empty()) return;
    items_.push_back({0, at_, std::make_shared<const Layout>(blocks_layout())});
    at_ += items_.back().layout->bytes;
    blocks_.clear();
    block_bytes_ = 0;
  }

  std::vector<Run> blocks_;
  int64_t block_bytes_ = 0;
  std::vector<Item> items_;
  int64_t at_ = 0;
};

Layout compile_basic(const Datatype& type) {
  if (type.element() != Element::pair) return block(0, type.size());
  const PairLayout pair = pair_layout(type.value(), type.index());
  Sequence both;
  both.add(0, std::make_shared<const Layout>(block(0, sizes_of(type.value()).size)));
  both.add(pair.index_offset,
           std::make_shared<const Layout>(block(0, sizes_of(type.index()).size)));
  return both.finish();
}

Layout compile_parts(const Shape& shape) {
  std::vector<Layout> inners;
  inners.reserve(shape.inners.size());
  for (const Held<Datatype>& inner : shape.inners) inners.push_back(compile(*inner));
  Sequence sequence;
  // Parts in a row are often the same but for their place: they share one layout.
  std::shared_ptr<const Layout> last;
  uint32_t last_inner = 0;
  int64_t last_copies = -1;
  for (const Part& part : shape.parts) {
    if (part.copies != last_copies || part.inner != last_inner) {
      last_copies = part.copies;
      last_inner = part.inner;
      last = std::make_shared<const Layout>(
          repeat(inners[part.inner], part.copies, shape.inners[part.inner]->extent()));
    }
    sequence.add(part.offset, last);
  }
  return sequence.finish();
}

}  // namespace

Layout compile(const Datatype& type) {
  if (type.plan != nullptr) return type.plan->layout();
  if (type.predefined()) return compile_basic(type);
  const Shape& shape = type.recipe->shape;
  Layout layout = compile_parts(shape);
  for (auto loop = shape.loops.rbegin(); loop != shape.loops.rend(); ++loop) {
    layout = repeat(layout, loop->count, loop->stride);
  }
  return layout;
}

}  // namespace weft::mpi
