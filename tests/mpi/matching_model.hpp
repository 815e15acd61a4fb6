// MPI's matching rules (MPI 3.5) at their plainest, for one channel and one thread: what every
// engine must do where calls come one after the other.
#pragma once

#include <cstdint>
#include <list>
#include <optional>

namespace weft::mpi::test {

class MatchingModel {
 public:
  struct Receive {
    int id;
    int source;  ///< -1: any
    int tag;     ///< negative: any, as MPI_ANY_TAG is
  };
  struct Message {
    int id;
    int source;
    int tag;
  };

  /// The messages that this receive may meet: of each source, the oldest that fits; of several
  /// sources MPI lets any be taken, and the engines here take the one that came first.
  std::optional<int> post(const Receive& receive) {
    for (auto each = messages_.begin(); each != messages_.end(); ++each) {
      if (!fits(receive, *each)) continue;
      const int id = each->id;
      messages_.erase(each);
      return id;
    }
    receives_.push_back(receive);
    return std::nullopt;
  }
  std::optional<int> arrive(const Message& message) {
    for (auto each = receives_.begin(); each != receives_.end(); ++each) {
      if (!fits(*each, message)) continue;
      const int id = each->id;
      receives_.erase(each);
      return id;
    }
    messages_.push_back(message);
    return std::nullopt;
  }
  std::optional<int> probe(int source, int tag) const {
    for (const Message& each : messages_) {
      if (fits({0, source, tag}, each)) return each.id;
    }
    return std::nullopt;
  }
  std::optional<int> extract(int source, int tag) {
    const auto found = probe(source, tag);
    if (found) messages_.remove_if([&](const Message& each) { return each.id == *found; });
    return found;
  }
  bool cancel(int id) {
    return receives_.remove_if([&](const Receive& each) { return each.id == id; }) != 0;
  }
  bool recall(int id) {
    return messages_.remove_if([&](const Message& each) { return each.id == id; }) != 0;
  }
  [[nodiscard]] const std::list<Receive>& receives() const { return receives_; }
  [[nodiscard]] const std::list<Message>& messages() const { return messages_; }

  static bool fits(const Receive& receive, const Message& message) {
    return (receive.source < 0 || receive.source == message.source) &&
           (receive.tag < 0 || receive.tag == message.tag);
  }

 private:
  std::list<Receive> receives_;
  std::list<Message> messages_;
};

}  // namespace weft::mpi::test
