// Sizes and bounds of new types (MPI 5.1.6), and their commit.
#include "mpi/types/builder.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "mpi/attributes.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/plan.hpp"

namespace weft::mpi {

Datatype::Datatype() = default;
Datatype::~Datatype() = default;

int64_t times(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) {
    fail(MPI_ERR_ARG, "the datatype would be larger than an address can tell");
  }
  return result;
}

int64_t plus(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) {
    fail(MPI_ERR_ARG, "the datatype would be larger than an address can tell");
  }
  return result;
}

namespace {

/// A range of addresses, relative to the buffer.
struct Range {
  int64_t low;
  int64_t high;
};

/// The range, and its copies `count` times, `stride` apart. `count` > 0.
Range repeated(Range range, int64_t count, int64_t stride) {
  const int64_t last = times(count - 1, stride);
  return {plus(range.low, std::min<int64_t>(last, 0)),
          plus(range.high, std::max<int64_t>(last, 0))};
}

void include(std::optional<Range>& all, Range more) {
  if (!all) {
    all = more;
  } else {
    all->low = std::min(all->low, more.low);
    all->high = std::max(all->high, more.high);
  }
}

/// What a shape's elements span, and what the program's own bounds in it do.
struct Span {
  std::optional<Range> data;
  std::optional<Range> marks;
};

Span span_of(const Shape& shape) {
  Span span;
  for (const Part& part : shape.parts) {
    const Datatype& inner = *shape.inners[part.inner];
    if (part.copies == 0) continue;
    const auto place = [&](int64_t low, int64_t high) {
      return repeated({plus(part.offset, low), plus(part.offset, high)}, part.copies,
                      inner.extent());
    };
    if (inner.size() != 0) {
      include(span.data, place(inner.true_lower_bound(), inner.true_upper_bound()));
    }
    if (inner.marked()) {
      include(span.marks, place(inner.lower_bound(), plus(inner.lower_bound(), inner.extent())));
    }
  }
  for (const Repetition& loop : shape.loops) {
    if (loop.count == 0) return {};
    if (span.data) span.data = repeated(*span.data, loop.count, loop.stride);
    if (span.marks) span.marks = repeated(*span.marks, loop.count, loop.stride);
  }
  return span;
}

int64_t round_up(int64_t value, int64_t alignment) {
  return times(plus(value, alignment - 1) / alignment, alignment);
}

Element common(Element a, Element b) noexcept {
  if (a == Element::none || a == b) return b;
  return b == Element::none ? a : Element::mixed;
}

}  // namespace

Held<Datatype> TypeBuilder::make() {
  auto type = Held<Datatype>::adopt(new Datatype);
  type->attributes = std::make_unique<AttributeSet>();
  return type;
}

Held<Datatype> TypeBuilder::basic(MPI_Datatype handle, Element element, Family family,
                                  const char* name) {
  Held<Datatype> type = make();
  const ElementSizes sizes = sizes_of(element);
  type->size_ = type->extent_ = type->true_extent_ = sizes.size;
  type->alignment_ = sizes.alignment;
  type->elements_ = 1;
  type->element_ = element;
  type->family_ = family;
  type->predefined_ = true;
  type->predefined_handle_ = handle;
  type->name = name;
  commit(*type);
  return type;
}

Held<Datatype> TypeBuilder::pair(MPI_Datatype handle, Element value, Element index,
                                 const char* name) {
  Held<Datatype> type = make();
  const PairLayout layout = pair_layout(value, index);
  const ElementSizes values = sizes_of(value);
  const ElementSizes indices = sizes_of(index);
  type->size_ = values.size + indices.size;
  type->extent_ = layout.extent;
  type->true_extent_ = layout.index_offset + indices.size;
  type->alignment_ = std::max(values.alignment, indices.alignment);
  type->elements_ = 2;
  type->element_ = Element::pair;
  type->value_ = value;
  type->index_ = index;
  type->family_ = Family::pair;
  type->predefined_ = true;
  type->predefined_handle_ = handle;
  type->name = name;
  commit(*type);
  return type;
}

Held<Datatype> TypeBuilder::derived(std::shared_ptr<const TypeRecipe> recipe) {
  Held<Datatype> type = make();
  const Shape& shape = recipe->shape;
  for (const Part& part : shape.parts) {
    const Datatype& inner = *shape.inners[part.inner];
    if (part.copies == 0 || inner.size() == 0) continue;
    type->size_ = plus(type->size_, times(part.copies, inner.size()));
    type->elements_ = plus(type->elements_, times(part.copies, inner.elements()));
    type->element_ = common(type->element_, inner.element());
    type->alignment_ = std::max(type->alignment_, inner.alignment());
    if (type->element_ == Element::pair && type->value_ != Element::none &&
        (type->value_ != inner.value() || type->index_ != inner.index())) {
      type->element_ = Element::mixed;
    }
    type->value_ = inner.value();
    type->index_ = inner.index();
  }
  for (const Repetition& loop : shape.loops) {
    type->size_ = times(type->size_, loop.count);
    type->elements_ = times(type->elements_, loop.count);
  }
  if (type->size_ == 0) {  // no elements: nothing to align, either
    type->element_ = Element::none;
    type->alignment_ = 1;
  }
  const Span span = span_of(shape);
  if (span.data) {
    type->true_lower_bound_ = span.data->low;
    type->true_extent_ = plus(span.data->high, -span.data->low);
  }
  if (span.marks) {
    mark(*type, span.marks->low, plus(span.marks->high, -span.marks->low));
  } else {
    type->lower_bound_ = type->true_lower_bound_;
    type->extent_ = round_up(type->true_extent_, type->alignment_);
  }
  type->recipe = std::move(recipe);
  return type;
}

Held<Datatype> TypeBuilder::copy(const Datatype& type) {
  Held<Datatype> result = make();
  result->size_ = type.size_;
  result->extent_ = type.extent_;
  result->lower_bound_ = type.lower_bound_;
  result->true_lower_bound_ = type.true_lower_bound_;
  result->true_extent_ = type.true_extent_;
  result->elements_ = type.elements_;
  result->alignment_ = type.alignment_;
  result->element_ = type.element_;
  result->value_ = type.value_;
  result->index_ = type.index_;
  result->marked_ = type.marked_;
  result->contiguous_ = type.contiguous_;
  result->committed_ = type.committed_;
  result->supported_ = type.supported_;
  result->recipe = type.recipe;
  result->plan = type.plan;
  return result;
}

void TypeBuilder::mark(Datatype& type, int64_t lower_bound, int64_t extent) {
  type.lower_bound_ = lower_bound;
  type.extent_ = extent;
  type.marked_ = true;
}

void TypeBuilder::commit(Datatype& type) {
  if (type.committed_) return;
  Layout layout = compile(type);
  type.contiguous_ =
      type.size_ == 0 || (layout.is_block() && layout.offset == 0 && type.extent_ == type.size_);
  type.plan = std::make_shared<const PackPlan>(std::move(layout), type.extent_);
  type.committed_ = true;
}

void TypeBuilder::make_predefined(Datatype& type, std::shared_ptr<const TypeRecipe> recipe) {
  type.recipe = std::move(recipe);
}

ElementSizes sizes_of(Element element) noexcept {
  switch (element) {
    case Element::none:
    case Element::mixed:
    case Element::pair:
      break;
    case Element::i8:
    case Element::u8:
    case Element::l8:
    case Element::character:
    case Element::byte:
    case Element::packed:
    case Element::boolean:
      return {1, 1, 1};
    case Element::i16:
    case Element::u16:
    case Element::l16:
    case Element::f16:
      return {2, 2, 2};
    case Element::i32:
    case Element::u32:
    case Element::l32:
    case Element::f32:
      return {4, 4, 4};
    case Element::wide_character:
      return {sizeof(wchar_t), alignof(wchar_t), 2};
    case Element::i64:
    case Element::u64:
    case Element::l64:
    case Element::f64:
      return {8, 8, 8};
    case Element::c_long:
    case Element::c_unsigned_long:
      return {sizeof(long), alignof(long), 4};
    case Element::i128:
    case Element::l128:
    case Element::f128:
      return {16, 16, 16};
    case Element::f80:
      return {sizeof(long double), alignof(long double), 16};
    case Element::c16:
      return {4, 2, 4};
    case Element::c32:
      return {8, 4, 8};
    case Element::c64:
      return {16, 8, 16};
    case Element::c80:
      return {2 * sizeof(long double), alignof(long double), 32};
    case Element::c128:
      return {32, 16, 32};
  }
  return {0, 1, 0};
}

PairLayout pair_layout(Element value, Element index) noexcept {
  const ElementSizes values = sizes_of(value);
  const ElementSizes indices = sizes_of(index);
  const auto round = [](int64_t x, int64_t to) { return (x + to - 1) / to * to; };
  const int64_t offset = round(values.size, indices.alignment);
  return {offset, round(offset + indices.size, std::max(values.alignment, indices.alignment))};
}

}  // namespace weft::mpi
