// What weft-info found out, as facts in sections: one form for people and for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace weft::info {

/// One fact: `name` is its key in JSON, `value` a sentence or a number written out.
struct Fact {
  std::string name;
  std::string value;
};

struct Section {
  std::string title;
  std::vector<Fact> facts;
};

/// Two columns under each title; a value of several lines is indented.
std::string as_text(const std::vector<Section>& sections);
/// {"title": {"name": "value", …}, …}; the titles in lower case. Facts of one name are lines of one
/// value.
std::string as_json(const std::vector<Section>& sections);
/// As text, indented. What is not UTF-8 (an environment's variable may hold anything) is replaced.
std::string json_text(const nlohmann::ordered_json& value);

Section about_build();
Section about_machine();
Section about_kernel();
Section about_transports();

/// How this process was started. It joins the job for that, so all ranks have to ask.
struct Launch {
  Section section;
  bool joined;  ///< or the section says why not
  bool speaks;  ///< one process of the job prints it
};
Launch about_launch();

}  // namespace weft::info
