// Sections of facts as text and as JSON.
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "weft/version.hpp"
#include "weft_build_info.hpp"

namespace weft::info {

std::string as_text(const std::vector<Section>& sections) {
  std::size_t width = 0;
  for (const Section& section : sections) {
    for (const Fact& fact : section.facts) width = std::max(width, fact.name.size());
  }
  std::string text;
  for (const Section& section : sections) {
    if (!text.empty()) text += '\n';
    text += section.title + '\n';
    for (const Fact& fact : section.facts) {
      std::string value;
      for (const char c : fact.value) {
        value += c;
        if (c == '\n') value.append(width + 4, ' ');
      }
      text += fmt::format("  {:<{}}  {}\n", fact.name, width, value);
    }
  }
  return text;
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string as_json(const std::vector<Section>& sections) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Section& section : sections) {
    std::string title = section.title;
    std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const Fact& fact : section.facts) {
      auto& value = all[title][fact.name];
      value = value.is_null() ? fact.value : value.get<std::string>() + '\n' + fact.value;
    }
  }
  return json_text(all) + '\n';
}

Section about_build() {
  return {"Build",
          {{"version", WEFT_VERSION_STRING},
           {"commit", build_info::kCommit},
           {"compiler", build_info::kCompiler},
           {"type", build_info::kBuildType},
           {"flags", build_info::kFlags}}};
}

}  // namespace weft::info
