#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/check_words.py [--rates] [FILE...]: plain words in comments, messages and docs.

The project uses the field's own terms (evict, demote, clean, dirty, pin): a
reader who searches for one must find the code. This check finds the private
words they replaced, and pronouns for things that are not people, in

- comments of C++, C, Python, TypeScript, shell and CMake,
- messages: string literals of src/ and include/ with a space in them,
- pages under docs/, README.md, ARCHITECTURE.md and the like.

Code between backticks does not count. Without FILE it reads what git tracks.
`--rates` also prints, for each folder, how many pronouns stand in 1,000 words
of comments and what share of the lines are comments.

Ends with 1 if a banned word occurs or pronouns are more than PRONOUNS_MAX in
1,000 words of comments of src/ and include/.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRONOUNS_MAX = 1.5  # In 1,000 words of comments; leveldb has 0.7.
PRONOUNS = re.compile(r"\b(who|whom|nobody|somebody|whoever)\b", re.IGNORECASE)

# What must not come back -> what to write. Whole words, any case.
BANNED = {
    r"firm": "dirty",
    r"firm (bytes|entries|line|copies)": "dirty ...",
    r"let go of": "removed, released, evicted or dropped",
    r"lets? go of": "remove, release, evict or drop",
    r"letting go of": "removing, releasing, evicting or dropping",
    r"is spared|are spared|be spared|spares? (it|them)": "protected",
    r"farewell": "removal",
    r"welcomed?": "inserted",
    r"passing memory|in passing": "staging buffer",
    r"foretells?|foretold|foresees?|foreseen|foresight": "predict, next use",
    r"outlooks?": "next use",
    r"shunned": "backed off from",
    r"condemn(s|ed)?": "drop as corrupt",
    r"hopeless": "must be destroyed",
    r"appraisers?": "cost model",
    r"unsettled": "not durable yet, deletes pending",
    r"turned away|turn(s|ing)? away": "cancelled, refused",
    r"write[- ]behind": "write-back",
    r"under way": "in flight, in progress",
    r"is heard of|hears? of|heard of": "is told of, learns of",
    r"stands? aside|put aside|set aside": "kept out of the queue",
    r"(?<!\")backed(?!\"| by)": "clean",
    r"departures?": "evictions or removals",
    r"leaving order|order of leaving": "eviction order",
    r"landings?": "destinations",
    r"movers?": "transfer threads, the transfer queue",
    r"newcomers?": "new entries",
    r"journeys?": "history",
    r"giver": "reclaim server",
    r"ask door|doors?": "ask socket",
}

HASH = {".py", ".sh", ".cmake", ".toml", ".yml"}
SLASH = {".h", ".cc", ".c", ".ts", ".js", ".mjs", ".cu"}
FENCE = re.compile(r"```.*?```", re.DOTALL)
TICKS = re.compile(r"`[^`\n]*`")
TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|R"(?P<d>[^(\s]*)\((?P<raw>.*?)\)(?P=d)\""""
    r"""|(?P<string>"(?:\\.|[^"\\\n])*")|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
SKIP = ("web/package-lock.json", "src/device/gpu/kernels_ptx.h", "LICENSE")


def pieces(path, text):
    """Yields (kind, offset, text): kind is `comment`, `message` or `page`."""
    if path.suffix == ".md":
        blank = lambda m: re.sub(r"[^\n]", " ", m.group())  # noqa: E731
        yield "page", 0, TICKS.sub(blank, FENCE.sub(blank, text))
    elif path.suffix in SLASH:
        for m in TOKEN.finditer(text):
            if m["line"] is not None or m["block"] is not None:
                yield "comment", m.start(), m.group()
            elif m["string"] is not None and " " in m["string"]:
                yield "message", m.start(), m["string"]
            elif m["raw"] is not None and " " in m["raw"]:
                yield "message", m.start(), m["raw"]
    elif path.suffix in HASH or path.name in ("Makefile", "CMakeLists.txt"):
        for m in re.finditer(r"(?<![\"'$\w])#[^\n]*|\"\"\".*?\"\"\"", text, re.DOTALL):
            yield "comment", m.start(), m.group()


def is_product(path):
    return path.parts[0] in ("src", "include") and not path.name.endswith("_test.cc") \
        and "testing" not in path.parts


def tracked():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(p) for p in out.stdout.split("\n") if p and p not in SKIP]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rates", action="store_true", help="pronouns and comments by folder")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    paths = [p.resolve().relative_to(ROOT) for p in arguments.files] or tracked()

    banned = [(re.compile(rf"\b(?:{word})\b", re.IGNORECASE), instead)
              for word, instead in BANNED.items()]
    found = 0
    words, pronouns = defaultdict(int), defaultdict(int)
    lines, comment_lines = defaultdict(int), defaultdict(int)
    for path in paths:
        if path == Path("tools/check_words.py") or not (ROOT / path).is_file():
            continue
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        folder = "/".join(path.parts[:2]) if path.parts[0] == "src" else path.parts[0]
        folder += "" if is_product(path) or path.parts[0] != "src" else " (tests)"
        lines[folder] += sum(1 for line in text.split("\n") if line.strip())
        for kind, offset, piece in pieces(path, text):
            if kind == "message" and path.parts[0] not in ("src", "include"):
                continue
            if path.name == "CHANGELOG.md":
                continue
            plain = TICKS.sub(lambda m: " " * len(m.group()), piece)
            if kind == "comment":
                words[folder] += len(re.findall(r"[A-Za-z]+", plain))
                pronouns[folder] += len(PRONOUNS.findall(plain))
                comment_lines[folder] += piece.count("\n") + 1
            # A phrase may go on in the next line of a comment.
            flat = re.sub(r"\s*\n\s*(//|#|\*)?\s?", lambda m: " " * len(m.group()), plain)
            for pattern, instead in banned:
                for m in pattern.finditer(flat):
                    found += 1
                    line = text.count("\n", 0, offset + m.start()) + 1
                    print(f"{path}:{line}: '{m.group()}' in a {kind}: write {instead}")
    if arguments.rates:
        for folder in sorted(words):
            print(f"{folder:<24} {1000 * pronouns[folder] / max(words[folder], 1):5.1f} pronouns in "
                  f"1,000 words of comments, {100 * comment_lines[folder] / lines[folder]:3.0f} % "
                  f"comment lines")
    product = [f for f in words if f == "include" or f.startswith("src/") and "(" not in f]
    total = sum(words[f] for f in product)
    rate = 1000 * sum(pronouns[f] for f in product) / max(total, 1)
    if not arguments.files or arguments.rates:
        print(f"check_words: {found} banned words; {rate:.2f} pronouns in 1,000 words of comments "
              f"(at most {PRONOUNS_MAX}), "
              f"{100 * sum(comment_lines[f] for f in product) / max(sum(lines[f] for f in product), 1):.1f}"
              f" % comment lines")
    return 1 if found or rate > PRONOUNS_MAX and not arguments.files else 0


if __name__ == "__main__":
    sys.exit(main())
