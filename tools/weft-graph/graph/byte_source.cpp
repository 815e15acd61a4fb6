#include "graph/byte_source.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kXzMagic{
    "\xfd"
    "7zXZ\0",
    6};

[[noreturn]] void fail(const std::string& path, std::string_view why,
                       Errc code = Errc::bad_argument) {
  throw Error(code, fmt::format("{}: {}", path, why));
}

std::string last_error() { return std::error_code(errno, std::generic_category()).message(); }

/// The file as it lies on the disk.
class File {
 public:
  explicit File(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) {
      fail(path, fmt::format("cannot be opened: {}", last_error()),
           errno == EACCES ? Errc::no_permission : Errc::bad_argument);
    }
  }
  ~File() { ::close(fd_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  std::size_t read(std::span<char> into) {
    for (;;) {
      const ssize_t got = ::read(fd_, into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail(path_, fmt::format("cannot be read: {}", last_error()));
    }
  }
  [[nodiscard]] bool is_directory() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 && S_ISDIR(info.st_mode);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

/// A file whose first block has been looked at already.
class Blocks {
 public:
  explicit Blocks(const std::string& path) : file_(path), block_(kBlockBytes) {
    if (file_.is_directory()) fail(path, "is a directory, not a file");
    refill();
    if (size_ == 0) fail(path, "is empty");
  }
  /// False at the end of the file.
  bool refill() {
    at_ = 0;
    size_ = 0;
    // A pipe may give little at a time; the packing is told by the first six bytes together.
    while (size_ < kXzMagic.size()) {
      const std::size_t got = file_.read(std::span(block_).subspan(size_));
      if (got == 0) break;
      size_ += got;
    }
    return size_ != 0;
  }
  [[nodiscard]] std::span<char> rest() { return std::span(block_).subspan(at_, size_ - at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  [[nodiscard]] bool starts_with(std::string_view magic) {
    return std::string_view(rest().data(), rest().size()).starts_with(magic);
  }
  [[nodiscard]] const std::string& path() const { return file_.path(); }

 private:
  File file_;
  std::vector<char> block_;
  std::size_t at_ = 0, size_ = 0;
};

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<Blocks> blocks) : blocks_(std::move(blocks)) {}
  std::size_t read(std::span<char> into) override {
    if (blocks_->rest().empty() && !blocks_->refill()) return 0;
    const std::size_t bytes = std::min(into.size(), blocks_->rest().size());
    std::memcpy(into.data(), blocks_->rest().data(), bytes);
    blocks_->skip(bytes);
    return bytes;
  }

 private:
  std::unique_ptr<Blocks> blocks_;
};

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<Blocks> blocks) : blocks_(std::move(blocks)) {
    // 15 window bits, +16: expect the gzip header.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail(blocks_->path(), "zlib has no memory");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  std::size_t read(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out == into.size()) {
      if (blocks_->rest().empty() && !blocks_->refill()) {
        if (!member_ended_) fail(blocks_->path(), "ends in the middle of its gzip data: truncated");
        break;
      }
      if (std::exchange(member_ended_, false)) {  // a file may hold several, one after the other
        if (blocks_->rest()[0] != kGzipMagic[0])
          fail(blocks_->path(), "has garbage after its gzip data");
        inflateReset(&stream_);
      }
      const auto rest = blocks_->rest();
      stream_.next_in = reinterpret_cast<Bytef*>(rest.data());
      stream_.avail_in = static_cast<uInt>(rest.size());
      const int answer = inflate(&stream_, Z_NO_FLUSH);
      blocks_->skip(rest.size() - stream_.avail_in);
      if (answer == Z_STREAM_END) {
        member_ended_ = true;
      } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
        fail(blocks_->path(), "is damaged: its gzip data cannot be unpacked");
      }
    }
    return into.size() - stream_.avail_out;
  }

 private:
  std::unique_ptr<Blocks> blocks_;
  z_stream stream_{};
  bool member_ended_ = false;
};

class XzSource final : public ByteSource {
 public:
  explicit XzSource(std::unique_ptr<Blocks> blocks) : blocks_(std::move(blocks)) { begin(); }
  ~XzSource() override { lzma_end(&stream_); }

  std::size_t read(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(into.data());
    stream_.avail_out = into.size();
    while (stream_.avail_out == into.size()) {
      const bool more = !blocks_->rest().empty() || blocks_->refill();
      if (ended_) {
        if (!more) break;
        if (!begin_next()) continue;
      }
      decode(more);
    }
    return into.size() - stream_.avail_out;
  }

 private:
  void begin() {
    if (lzma_stream_decoder(&stream_, UINT64_MAX, 0) != LZMA_OK) {
      fail(blocks_->path(), "liblzma has no memory");
    }
  }
  /// A file may hold several streams, with zeros between and after them. False: no other yet.
  bool begin_next() {
    const auto rest = blocks_->rest();
    std::size_t zeros = 0;
    while (zeros < rest.size() && rest[zeros] == 0) ++zeros;
    blocks_->skip(zeros);
    if (zeros == rest.size()) return false;
    if (rest[zeros] != kXzMagic[0]) fail(blocks_->path(), "has garbage after its xz data");
    ended_ = false;
    is_first_ = false;
    begin();
    return true;
  }
  void decode(bool more) {
    const auto rest = blocks_->rest();
    stream_.next_in = reinterpret_cast<const uint8_t*>(rest.data());
    stream_.avail_in = rest.size();
    const lzma_ret answer = lzma_code(&stream_, more ? LZMA_RUN : LZMA_FINISH);
    blocks_->skip(rest.size() - stream_.avail_in);
    if (answer == LZMA_STREAM_END) {
      ended_ = true;
    } else if (answer == LZMA_BUF_ERROR && !more) {
      fail(blocks_->path(), "ends in the middle of its xz data: truncated");
    } else if (answer == LZMA_FORMAT_ERROR && !is_first_) {
      fail(blocks_->path(), "has garbage after its xz data");
    } else if (answer != LZMA_OK && answer != LZMA_BUF_ERROR) {
      fail(blocks_->path(), "is damaged: its xz data cannot be unpacked");
    }
  }

  std::unique_ptr<Blocks> blocks_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ended_ = false;
  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  auto blocks = std::make_unique<Blocks>(path);
  if (blocks->starts_with(kGzipMagic)) return std::make_unique<GzipSource>(std::move(blocks));
  if (blocks->starts_with(kXzMagic)) return std::make_unique<XzSource>(std::move(blocks));
  if (path.ends_with(".gz")) fail(path, "is named .gz and does not begin as gzip data");
  if (path.ends_with(".xz")) fail(path, "is named .xz and does not begin as xz data");
  return std::make_unique<PlainSource>(std::move(blocks));
}

}  // namespace weft::graph
