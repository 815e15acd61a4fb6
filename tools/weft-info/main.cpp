// weft-info: what weft is here: version, machine, kernel, transports, configuration. Needs no
// launcher; started by one, it says with --launch what it finds of it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "configuration.hpp"
#include "report.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/version.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Shows what weft is and finds on this machine."};
  bool config = false;
  bool launch = false;
  bool markdown = false;
  bool json = false;
  bool transports = false;
  app.set_version_flag("--version", std::string("weft ") + WEFT_VERSION_STRING);
  app.add_flag("--config", config, "every configuration key: value, origin, default, range, help");
  app.add_flag("--launch", launch, "how this process was started, and the job it joins")
      ->excludes("--config");
  app.add_flag("--transports", transports, "the transports alone, and which one would be used")
      ->excludes("--config")
      ->excludes("--launch");
  auto* as_page = app.add_flag("--markdown", markdown, "with --config: the documentation's page");
  auto* as_object = app.add_flag("--json", json, "for programs");
  as_page->needs("--config");
  as_page->excludes(as_object);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  try {
    weft::info::register_all_tables();
    std::string text;
    bool good = true;
    if (launch) {
      const weft::info::Launch found = weft::info::about_launch();
      good = found.joined;
      if (found.speaks)
        text = json ? weft::info::as_json({found.section}) : weft::info::as_text({found.section});
    } else if (config && markdown) {
      text = weft::info::config_as_markdown();
    } else if (config) {
      text = json ? weft::info::config_as_json() : weft::info::config_as_text();
    } else {
      using namespace weft::info;
      const std::vector<Section> sections =
          transports ? std::vector{about_transports()}
                     : std::vector{about_build(), about_machine(), about_kernel(),
                                   about_transports(), about_configuration()};
      text = json ? as_json(sections) : as_text(sections);
    }
    weft::base::warn_unknown_config();
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) return 1;
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft-info: {}\n", error.what());
    return 1;
  }
}
