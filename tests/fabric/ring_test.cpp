// The ring alone: both sides in one process, far beyond one lap, and with two threads.
#include "fabric/ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace weft::fabric {
namespace {

struct Ring {
  explicit Ring(uint32_t capacity)
      : cells(new Cell[capacity]()),
        producer(cells.get(), capacity, &head),
        consumer(cells.get(), capacity, &head) {}
  std::unique_ptr<Cell[]> cells;
  std::atomic<uint64_t> head{0};
  RingProducer producer;
  RingConsumer consumer;

  bool push(const std::string& text) {
    const uint32_t n = cells_of(text.size());
    Cell* const cell = producer.claim(n);
    if (cell == nullptr) return false;
    std::memcpy(cell->bytes + kWordBytes, text.data(), text.size());
    producer.publish(cell, n, text.size(), FrameKind::inlined, 3);
    return true;
  }
  bool pop(std::string& text) {
    ControlWord word;
    const std::byte* bytes;
    if (consumer.peek(word, bytes) != RingConsumer::Peek::frame) {
      consumer.publish_head();
      return false;
    }
    EXPECT_EQ(word.port, 3);
    text.assign(reinterpret_cast<const char*>(bytes), word.length);
    consumer.consume(cells_of(word.length));
    return true;
  }
};

TEST(Ring, ControlWordComesApartAsItWentTogether) {
  const ControlWord word{ControlWord::stamp_of(0x123456789), 4040, FrameKind::packet, 4095};
  const ControlWord same = ControlWord::unpack(word.packed());
  EXPECT_EQ(same.stamp, word.stamp);
  EXPECT_EQ(same.length, word.length);
  EXPECT_EQ(same.kind, word.kind);
  EXPECT_EQ(same.port, word.port);
  EXPECT_NE(ControlWord::stamp_of(0), 0u);
  EXPECT_NE(ControlWord::stamp_of(uint64_t{1} << 32), 0u);
}

TEST(Ring, TheUsualClaimGivesUpEarlyWhereTheOtherGoesOn) {
  Ring ring(8);
  uint32_t usual = 0;
  const auto push_one = [&] {
    Cell* cell = ring.producer.claim_one();
    usual += cell != nullptr ? 1 : 0;
    if (cell == nullptr) cell = ring.producer.claim(1);
    if (cell == nullptr) return false;
    ring.producer.publish(cell, 1, 8, FrameKind::inlined, 3);
    return true;
  };
  for (int lap = 0; lap < 100; ++lap) {
    uint32_t pushed = 0;
    while (push_one()) ++pushed;
    EXPECT_EQ(pushed, 8u) << "a full ring, and not a cell less";
    std::string text;
    while (ring.pop(text)) --pushed;
    EXPECT_EQ(pushed, 0u);
  }
  EXPECT_GE(usual, 300u) << "the usual claim is the usual one";
}

TEST(Ring, LooksAheadOverFramesOfAnyLengthAndGivesSeveralBack) {
  Ring ring(32);
  const std::byte* bytes = nullptr;
  std::size_t length = 0;
  const auto text_ahead = [&](uint32_t cells) {
    const auto next = ring.consumer.peek_inlined(cells, bytes, length);
    return next == RingConsumer::Next::one || next == RingConsumer::Next::longer
               ? std::string(reinterpret_cast<const char*>(bytes), length)
               : std::string("none");
  };
  const auto long_text = [](int n) { return std::to_string(n) + std::string(90, 'x'); };
  int in = 0;
  int out = 0;
  int pads = 0;
  for (int lap = 0; lap < 1000; ++lap) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(ring.push("short " + std::to_string(in++)));
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(ring.push(long_text(in++)));  // two cells each
    for (uint32_t i = 0; i < 5; ++i)
      ASSERT_EQ(text_ahead(i), "short " + std::to_string(out + static_cast<int>(i)));
    ring.consumer.consume_ones(3);
    out += 3;
    ASSERT_EQ(text_ahead(0), "short " + std::to_string(out));
    ring.consumer.consume_ones(2);
    out += 2;
    int shown = 0;
    while (shown < 4 && text_ahead(2 * shown) == long_text(out + shown)) ++shown;
    if (shown < 4) {  // behind them the ring ends
      ASSERT_EQ(ring.consumer.peek_inlined(2 * shown, bytes, length), RingConsumer::Next::other);
      ++pads;
    }
    for (int i = 0; i < shown; ++i, ++out) ring.consumer.consume(2);
    std::string text;
    for (; shown < 4; ++shown, ++out) {
      ASSERT_TRUE(ring.pop(text));
      ASSERT_EQ(text, long_text(out));
    }
    EXPECT_EQ(ring.consumer.peek_inlined(0, bytes, length), RingConsumer::Next::nothing);
    ring.consumer.publish_head();
  }
  EXPECT_GT(pads, 100);
}

// A word that no producer writes: longer than the ring goes on.
TEST(Ring, ALengthBeyondTheRingIsNotShown) {
  Ring ring(8);
  ASSERT_TRUE(ring.push("first"));
  Cell* const cell = ring.producer.claim(1);
  ring.producer.publish(cell, 1, 8 * sizeof(Cell) - kWordBytes, FrameKind::inlined, 3);
  const std::byte* bytes = nullptr;
  std::size_t length = 0;
  ASSERT_EQ(ring.consumer.peek_inlined(0, bytes, length), RingConsumer::Next::one);
  EXPECT_EQ(ring.consumer.peek_inlined(1, bytes, length), RingConsumer::Next::other);
  ring.consumer.consume_ones(1);
  ControlWord word;
  EXPECT_EQ(ring.consumer.peek(word, bytes), RingConsumer::Peek::nonsense);
}

TEST(Ring, RandomSizesAndFillsKeepTheirContents) {
  std::minstd_rand random(7);
  Ring ring(16);
  std::vector<std::string> sent;
  std::size_t received = 0;
  std::string text;
  for (int step = 0; step < 200000; ++step) {
    if (random() % 2 == 0) {
      // All bits set in payload: what a stale stamp would look like if it were believed.
      std::string frame(random() % 248, static_cast<char>(random() % 3 == 0 ? 0xff : random()));
      if (ring.push(frame)) sent.push_back(frame);
    } else if (ring.pop(text)) {
      ASSERT_LT(received, sent.size());
      ASSERT_EQ(text, sent[received++]);
    }
  }
  while (ring.pop(text)) ASSERT_EQ(text, sent[received++]);
  EXPECT_EQ(received, sent.size());
}

TEST(Ring, PayloadThatLooksLikeAStampIsNotBelieved) {
  // Frames of three cells whose continuation cells begin with exactly the control word that their
  // position will await in the next lap; then small frames, one at a time, that stop the consumer
  // at each of these positions while nothing has been sent to it.
  constexpr uint64_t kCells = 8;
  Ring ring(kCells);
  uint64_t position = 0;
  std::string out;
  for (int round = 0; round < 200; ++round) {
    while (position % kCells > kCells - 3) {
      ASSERT_TRUE(ring.push("s") && ring.pop(out));
      ++position;
    }
    std::string frame(150, '\0');
    for (uint64_t i = 1; i < 3; ++i) {
      const uint64_t bait =
          ControlWord{ControlWord::stamp_of(position + i + kCells), 1, FrameKind::inlined, 3}
              .packed();
      std::memcpy(frame.data() + i * sizeof(Cell) - kWordBytes, &bait, sizeof bait);
    }
    ASSERT_TRUE(ring.push(frame) && ring.pop(out));
    ASSERT_EQ(out, frame);
    position += 3;
    for (uint64_t i = 0; i < kCells + static_cast<uint64_t>(round) % kCells; ++i) {
      ASSERT_FALSE(ring.pop(out)) << "old payload taken for a frame";
      ASSERT_TRUE(ring.push("s") && ring.pop(out));
      ++position;
    }
  }
}

TEST(Ring, AFullRingOpensOnceItsConsumerIsIdle) {
  Ring ring(16);
  int pushed = 0;
  while (ring.push("x")) ++pushed;
  EXPECT_EQ(pushed, 16);
  std::string text;
  EXPECT_TRUE(ring.pop(text));
  EXPECT_FALSE(ring.push("y"));  // told lazily …
  while (ring.pop(text)) {
  }
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(ring.push("z"));  // … but told
}

TEST(Ring, NonsenseIsTold) {
  Ring ring(8);
  word_of(ring.cells[0])
      .store(ControlWord{ControlWord::stamp_of(0), 60000, FrameKind::inlined, 0}.packed());
  ControlWord word;
  const std::byte* bytes;
  EXPECT_EQ(ring.consumer.peek(word, bytes), RingConsumer::Peek::nonsense);
  word_of(ring.cells[0])
      .store(ControlWord{ControlWord::stamp_of(0), 0, FrameKind::pad, 0}.packed());
  EXPECT_EQ(ring.consumer.peek(word, bytes), RingConsumer::Peek::nonsense);
  word_of(ring.cells[0])
      .store(ControlWord{ControlWord::stamp_of(0), 1, static_cast<FrameKind>(9), 0}.packed());
  EXPECT_EQ(ring.consumer.peek(word, bytes), RingConsumer::Peek::nonsense);
}

TEST(Ring, TwoThreads) {
  Ring ring(64);
  constexpr uint32_t kFrames = 300000;
  std::thread producer([&] {
    for (uint32_t i = 0; i < kFrames;)
      if (ring.push(std::to_string(i) + std::string(i % 200, '.')))
        ++i;
      else
        std::this_thread::yield();
  });
  std::string text;
  for (uint32_t i = 0; i < kFrames;) {
    if (!ring.pop(text)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(text, std::to_string(i) + std::string(i % 200, '.'));
    ++i;
  }
  producer.join();
}

}  // namespace
}  // namespace weft::fabric
