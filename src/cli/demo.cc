#include "cli/demo.h"

#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/parse.h"
#include "cli/complain.h"
#include "demo/play.h"

namespace spillway {

int RunDemo(int argc, char** argv) {
  demo::DemoOptions options;
  options.title = "spillway demo";
  std::string length;
  std::string card_size;
  CLI::App app(
      "The demo of spillwayd: a dozen agents as its clients on a virtual card or a part of a GPU, "
      "and neighbours that squeeze it.",
      "spillway demo");
  app.add_option("--for", length, "How long, at least 1s [60s]");
  app.add_option("--device", options.device,
                 "cpu, cuda:N or hip:N [a GPU if there is one, else a virtual card]");
  app.add_option("--card-size", card_size,
                 "Bytes of the card, or of the GPU to play on [an eighth of what is free, at most "
                 "512MiB, on a GPU 4GiB]");
  app.add_flag("--whole", options.whole, "The whole story, however short");
  app.add_option("--trace", options.trace, "Write all turns to this file, for spillway replay");
  app.add_option("--record", options.record, "Write memory over time to this CSV file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!length.empty()) {
    const Result<Duration> parsed = ParseDuration(length);
    if (!parsed) return Complain("demo", "--for: " + parsed.error().message);
    options.length = *parsed;
  }
  if (!card_size.empty()) {
    const Result<Bytes> parsed = ParseBytes(card_size);
    if (!parsed) return Complain("demo", "--card-size: " + parsed.error().message);
    options.card_bytes = *parsed;
  }
  const Result<int> played = demo::Play(options);
  if (!played) return Complain("demo", played.error());
  return *played;
}

}  // namespace spillway
