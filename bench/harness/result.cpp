#include "harness/result.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "harness/machine.hpp"

namespace weft::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kModes{"matched", "queue", "handler", "put", "get"};
constexpr std::array kStates{"shared", "unshared", "one_core", "unknown", "none"};

void put_summary(Json& line, const std::string& name, const std::optional<Summary>& summary) {
  if (!summary) {
    line[name] = nullptr;
    return;
  }
  line[name] = summary->median;
  line[name + "_spread"] = summary->spread();
}

std::optional<Summary> get_summary(const Json& line, const std::string& name, std::size_t samples) {
  const auto value = line.find(name);
  if (value == line.end() || value->is_null()) return std::nullopt;
  const double median = value->get<double>();
  const auto noise = line.find(name == "median" ? "spread" : name + "_spread");
  const double spread = noise != line.end() && noise->is_number() ? noise->get<double>() : 0;
  return Summary{median, median - spread, median + spread, samples};
}

// "; window 64; waiting poll".
std::string extras(const Result& r) {
  std::string text;
  for (const auto& [key, value] : r.extra.items()) {
    text += fmt::format("; {} {}", key,
                        value.is_number_float() ? fmt::format("{:.4g}", value.get<double>())
                        : value.is_string()     ? value.get<std::string>()
                                                : value.dump());
  }
  return text;
}

}  // namespace

std::string name_of(Mode mode) { return kModes[static_cast<std::size_t>(mode)]; }
std::string name_of(State state) { return kStates[static_cast<std::size_t>(state)]; }

Result figure(std::string bench, std::string mode, std::string unit, Better better) {
  Result result;
  result.bench = std::move(bench);
  result.mode = std::move(mode);
  result.unit = std::move(unit);
  result.lower_is_better = better == Better::lower;
  return result;
}

Json to_json(const Result& r) {
  Json line;
  line["bench"] = r.bench;
  line["mode"] = r.mode;
  line["size_bytes"] = r.size_bytes;
  line["threads"] = r.threads;
  line["devices"] = r.devices;
  // A figure without samples is none: null, not zero.
  line["median"] = r.value.samples != 0 ? Json(r.value.median) : Json();
  line["spread"] = r.value.samples != 0 ? Json(r.value.spread()) : Json();
  line["samples"] = r.value.samples;
  line["unit"] = r.unit;
  line["better"] = r.lower_is_better ? "lower" : "higher";
  line["limit_name"] = r.limit_name;
  put_summary(line, "limit", r.limit);
  put_summary(line, "ratio", r.ratio);
  line["state"] = name_of(r.state);
  line["verdict"] = r.verdict;
  if (r.fairness) line["fairness"] = *r.fairness;
  for (const auto& [key, value] : r.extra.items()) line[key] = value;
  describe_machine(line);
  return line;
}

Result from_json(const Json& line) {
  try {
    Result r;
    r.bench = line.at("bench").get<std::string>();
    r.mode = line.at("mode").get<std::string>();
    r.size_bytes = line.at("size_bytes").get<std::size_t>();
    r.threads = line.at("threads").get<unsigned>();
    r.devices = line.value("devices", 0U);
    r.unit = line.at("unit").get<std::string>();
    r.lower_is_better = line.at("better").get<std::string>() == "lower";
    const auto samples = line.at("samples").get<std::size_t>();
    r.value = get_summary(line, "median", samples).value_or(Summary{});
    r.limit_name = line.value("limit_name", "");
    r.limit = get_summary(line, "limit", samples);
    r.ratio = get_summary(line, "ratio", samples);
    const auto state = line.at("state").get<std::string>();
    for (std::size_t i = 0; i < kStates.size(); ++i) {
      if (state == kStates[i]) r.state = static_cast<State>(i);
    }
    r.verdict = line.value("verdict", "ok");
    if (const auto fairness = line.find("fairness"); fairness != line.end()) {
      r.fairness = fairness->get<double>();
    }
    r.extra = line;
    return r;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("not a result of weft-bench: {}", error.what()));
  }
}

std::string with_unit(double value, const std::string& unit) {
  struct Scale {
    const char* unit;
    double factor;
    const char* shown;
  };
  // Largest scale first, per unit.
  static constexpr std::array<Scale, 9> kScales{{{"ns", 1e9, "s"},
                                                 {"ns", 1e6, "ms"},
                                                 {"ns", 1e3, "µs"},
                                                 {"/s", 1e6, "M/s"},
                                                 {"/s", 1e3, "k/s"},
                                                 {"B/s", 1e9, "GB/s"},
                                                 {"B/s", 1e6, "MB/s"},
                                                 {"B", 1048576.0, "MiB"},
                                                 {"B", 1024.0, "KiB"}}};
  std::string shown = unit;
  for (const Scale& scale : kScales) {
    if (unit == scale.unit && std::abs(value) >= scale.factor) {
      value /= scale.factor;
      shown = scale.shown;
      break;
    }
  }
  if (unit == "B" && shown == "B") return fmt::format("{:.0f} B", value);
  const double size = std::abs(value);
  const int digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return fmt::format("{:.{}f} {}", value, digits, shown);
}

std::string title(const Result& r) {
  std::string text = r.mode.empty() ? r.bench : fmt::format("{} {}", r.bench, r.mode);
  if (r.size_bytes != 0 || r.bench == "rate") {
    text += fmt::format(", {}", with_unit(static_cast<double>(r.size_bytes), "B"));
  }
  if (r.threads != 1 && r.devices == 0) text += fmt::format(", {} threads", r.threads);
  if (r.threads != 1 && r.devices != 0) text += fmt::format(", {0} x {0} threads", r.threads);
  if (r.devices != 0) text += fmt::format(", {} device{}", r.devices, r.devices == 1 ? "" : "s");
  return text;
}

std::string to_text(const Result& r) {
  std::string text = title(r);
  if (r.value.samples == 0) return fmt::format("{}: {}{}", text, r.verdict, extras(r));
  text += fmt::format(": {} ±{}", with_unit(r.value.median, r.unit),
                      with_unit(r.value.spread(), r.unit));
  if (r.limit) text += fmt::format("; {} {}", r.limit_name, with_unit(r.limit->median, r.unit));
  if (r.ratio) text += fmt::format("; ratio {:.2f} ±{:.2f}", r.ratio->median, r.ratio->spread());
  if (r.fairness) text += fmt::format("; fairness {:.2f}", *r.fairness);
  if (r.state != State::none) {
    text += fmt::format("; cache {}, {} samples", name_of(r.state), r.value.samples);
  }
  text += extras(r);
  if (r.verdict != "ok") text += "; " + r.verdict;
  return text;
}

void print(const Result& result, bool json) {
  const std::string line = json ? to_json(result).dump() : to_text(result);
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace weft::bench
