// Tables of functions of libfabric's objects, replaced by a test's own that call those.
#pragma once

#include <deque>
#include <memory>
#include <mutex>

namespace weft::fabric::test {

/// A copy of a table of functions, and the one that it replaces. They stay: so may an object that
/// was left open.
template <class Table>
struct ReplacedTable {
  Table own;  // first: objects point to it
  const Table* real;
};

/// The table in whose place `own` is.
template <class Table>
const Table& real_table(const Table* own) {
  return *reinterpret_cast<const ReplacedTable<Table>*>(own)->real;
}

/// Puts a copy in the table's place, to be changed.
template <class Table>
Table& replace_table(Table*& table) {
  static std::mutex lock;
  static std::deque<std::unique_ptr<ReplacedTable<Table>>> all;
  const std::scoped_lock hold(lock);
  all.push_back(std::make_unique<ReplacedTable<Table>>(ReplacedTable<Table>{*table, table}));
  table = &all.back()->own;
  return *table;
}

}  // namespace weft::fabric::test
