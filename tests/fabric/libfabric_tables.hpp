// Tables of functions of libfabric's objects, replaced by a test's own that call those.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

namespace weft::fabric::test {

/// The tables of one interceptor. Others may stand above it and below, each with tables of its own
/// in the same objects.
template <class Interceptor>
class Tables {
 public:
  /// The table in whose place this interceptor put one. `top`: the one that the object has.
  template <class Table>
  static const Table& real(const Table* top) {
    const auto* one = reinterpret_cast<const Replaced<Table>*>(top);
    while (one->owner != &kOwner) one = reinterpret_cast<const Replaced<Table>*>(one->real);
    return *one->real;
  }

  /// Puts a copy in the table's place, to be changed. It stays: so may an object that was left
  /// open.
  template <class Table>
  static Table& replace(Table*& table) {
    static std::mutex lock;
    static std::deque<std::unique_ptr<Replaced<Table>>> all;
    const std::scoped_lock hold(lock);
    all.push_back(std::make_unique<Replaced<Table>>(Replaced<Table>{*table, table, &kOwner}));
    table = &all.back()->own;
    return *table;
  }

 private:
  template <class Table>
  struct Replaced {
    Table own;  // first: objects point to it
    const Table* real;
    const char* owner;
  };
  static constexpr char kOwner = 0;
};

}  // namespace weft::fabric::test
