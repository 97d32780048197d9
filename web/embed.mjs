// SPDX-License-Identifier: Apache-2.0
// embed.mjs DIST OUT.cc: the built dashboard as a C++ source, each file plain and
// gzipped. The same files make the same source.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { gzipSync } from "node:zlib";

const TYPES = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

function filesOf(folder) {
  return readdirSync(folder)
    .sort()
    .map((name) => join(folder, name))
    .flatMap((path) => (statSync(path).isDirectory() ? filesOf(path) : [path]));
}

const array = (name, bytes) =>
  `constexpr unsigned char ${name}[] = {${[...bytes].join(",")}};\n`.replace(/(.{2000}),/g, "$1,\n");

const [dist, out] = process.argv.slice(2);
let data = "";
let rows = "";
filesOf(dist).forEach((path, i) => {
  const bytes = readFileSync(path);
  const zipped = gzipSync(bytes, { level: 9 });
  zipped[9] = 255; // The system it was made on: none.
  const name = "/" + relative(dist, path).split("\\").join("/");
  const type = TYPES[name.split(".").pop()] ?? "application/octet-stream";
  const etag = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
  data += array(`kFile${i}`, bytes) + array(`kZipped${i}`, zipped);
  rows += `      http::File{.path = "${name === "/index.html" ? "/" : name}",\n`;
  rows += `                 .type = "${type}",\n`;
  rows += `                 .bytes = View(kFile${i}),\n`;
  rows += `                 .gzip = View(kZipped${i}),\n`;
  rows += `                 .etag = "\\"${etag}\\"",\n`;
  rows += `                 .immutable = ${name.startsWith("/assets/")}},\n`;
});
writeFileSync(
  out,
  `// Made by web/embed.mjs from the built dashboard.
#include "server/dashboard.h"

#include <array>
#include <cstddef>
#include <string_view>

namespace spillway::server {

namespace {

${data}
template <std::size_t kSize>
std::string_view View(const unsigned char (&bytes)[kSize]) {
  return {reinterpret_cast<const char*>(bytes), kSize};
}

}  // namespace

std::span<const http::File> DashboardFiles() {
  static const std::array files = {
${rows}  };
  return files;
}

}  // namespace spillway::server
`,
);
