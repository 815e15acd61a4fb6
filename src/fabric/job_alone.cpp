// The provider for a program that was started by hand: a job of one.
#include "fabric/job_alone.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>

#include "fabric/job_last_words.hpp"
#include "fabric/job_secret.hpp"

namespace weft::fabric {
namespace {

class AloneJob final : public Job {
 public:
  AloneJob() : id_(fmt::format("alone-{}-{}", getpid(), random_hex(4))), key_(random_job_key()) {}

  Rank rank() const noexcept override { return Rank{0}; }
  int size() const noexcept override { return 1; }
  const std::vector<Rank>& node_ranks() const noexcept override { return node_ranks_; }
  int node_of(Rank) const noexcept override { return 0; }
  int node_count() const noexcept override { return 1; }
  const std::string& id() const noexcept override { return id_; }
  const std::string& key() const noexcept override { return key_; }
  std::string_view provider() const noexcept override { return "alone"; }

  void put(std::string_view key, std::string_view value) override {
    const std::lock_guard hold(lock_);
    staged_.insert_or_assign(std::string(key), std::string(value));
  }

  std::string get(Rank from, std::string_view key) override {
    if (from != Rank{0})
      throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of one", from.value));
    const std::lock_guard hold(lock_);
    const auto found = published_.find(key);
    if (found == published_.end())
      throw Error(Errc::no_such_peer, fmt::format("get: rank 0 never published '{}'", key));
    return found->second;
  }

  void fence() override {
    const std::lock_guard hold(lock_);
    for (auto& [key, value] : staged_) published_.insert_or_assign(key, std::move(value));
    staged_.clear();
  }

  void abort(int code, std::string_view why) override {
    std::fflush(nullptr);
    print_line(fmt::format("weft: rank 0 ended the job: {}", why));
    _exit(abort_exit_code(code));
  }

  void on_peer_death(std::function<void(Rank, std::string)>) override {}

 private:
  const std::vector<Rank> node_ranks_{Rank{0}};
  const std::string id_;
  const std::string key_;
  std::mutex lock_;
  std::map<std::string, std::string, std::less<>> staged_;     ///< put since the last fence
  std::map<std::string, std::string, std::less<>> published_;  ///< what get finds
};

}  // namespace

std::unique_ptr<Job> make_alone_job() { return std::make_unique<AloneJob>(); }

}  // namespace weft::fabric
