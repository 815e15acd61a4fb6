// What the graph tests share: folders that vanish, ranks as threads, graphs made by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "graph/csr.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/job.hpp"

namespace weft::graph::test {

/// A folder of this test's own, gone with it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return path_; }
  /// Writes `content` and returns the file's path.
  std::string write(const std::string& name, std::string_view content) const {
    const auto path = path_ / name;
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path.string();
  }
  std::string write_gzip(const std::string& name, std::string_view content) const {
    std::string path = (path_ / name).string();
    gzFile file = ::gzopen(path.c_str(), "wb");
    ::gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    ::gzclose(file);
    return path;
  }

 private:
  std::filesystem::path path_;
};

inline std::string file_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs `body` as each rank of a job whose ranks are threads of this process.
inline void run_ranks(int ranks, const std::function<void(Runtime&)>& body) {
  auto jobs = fabric::make_local_job(ranks);
  std::vector<std::thread> threads;
  for (auto& job : jobs) {
    threads.emplace_back([&body, &job] {
      RuntimeOptions options;
      options.job = job.get();
      Runtime runtime(options);
      body(runtime);
    });
  }
  for (auto& thread : threads) thread.join();
}

/// The repository's own data, and what WEFT_SHARED_DATA names, where it was given.
inline std::string own_data(const std::string& name) { return WEFT_OWN_DATA "/" + name; }
inline std::string shared_data(const std::string& name) {
  const std::string folder = WEFT_SHARED_DATA;
  return folder.empty() ? std::string() : folder + "/" + name;
}

}  // namespace weft::graph::test
