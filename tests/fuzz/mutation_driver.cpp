// Runs a fuzz target on mutations of its corpus, for the everyday tests, which libFuzzer would ask a Clang of. Without
// coverage to guide it: what libFuzzer finds becomes part of the corpus. Arguments are libFuzzer's.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_target.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxInputBytes = 64 << 10;

/// For the handler of signals, which may not ask an allocator for anything.
std::string current_input;
char crash_file[64];

void keep_input(int signal) {
  const int file = ::open(crash_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool kept = file >= 0 && ::write(file, current_input.data(), current_input.size()) ==
                                     static_cast<ssize_t>(current_input.size());
  const char* const message = kept ? "fuzz: the input is kept in " : "fuzz: the input cannot be kept in ";
  const bool said = ::write(2, message, std::strlen(message)) > 0 &&
                    ::write(2, crash_file, std::strlen(crash_file)) > 0 && ::write(2, "\n", 1) > 0;
  ::signal(signal, SIG_DFL);
  ::raise(said ? signal : SIGABRT);
}

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The words of a dictionary in libFuzzer's form: a quoted one a line, with \\, \" and \xAB.
std::vector<std::string> read_dictionary(const fs::path& path) {
  std::vector<std::string> words;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t begin = line.find('"'), end = line.rfind('"');
    if (line.starts_with('#') || end == begin) continue;
    std::string& word = words.emplace_back();
    for (std::size_t at = begin + 1; at < end; ++at) {
      if (line[at] != '\\') {
        word += line[at];
      } else if (line[++at] == 'x') {
        int value = 0;
        std::from_chars(&line[at + 1], &line[at + 3], value, 16);
        word += static_cast<char>(value);
        at += 2;
      } else {
        word += line[at];
      }
    }
  }
  return words;
}

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words, std::uint64_t seed)
      : corpus_(std::move(corpus)), words_(std::move(words)), random_(seed) {}

  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    for (std::size_t edits = 1 + below(5); edits > 0; --edits) edit(bytes);
    bytes.resize(std::min(bytes.size(), kMaxInputBytes));
    return bytes;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % std::max<std::size_t>(bound, 1)); }

  void edit(std::string& bytes) {
    const std::size_t at = below(bytes.size() + 1);
    switch (below(8)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      case 2:
        bytes.erase(at, 1 + below(16));
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(100)));
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5: {
        const std::string& other = corpus_[below(corpus_.size())];
        bytes = bytes.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 6:  // many of the same: nesting, long numbers, long names
        bytes.insert(
            at, std::string(1 + below(below(4) == 0 ? 20'000 : 50), bytes.empty() ? '(' : bytes[below(bytes.size())]));
        break;
      default:
        if (!words_.empty()) {
          const std::string& word = words_[below(words_.size())];
          bytes.replace(at, below(2) * std::min(word.size(), bytes.size() - at), word);
        }
    }
  }

  std::vector<std::string> corpus_, words_;
  std::mt19937_64 random_;
};

void run(const std::string& input) {
  current_input = input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()), current_input.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 10'000, seed = std::random_device{}();
  double seconds = 1e9;
  std::vector<std::string> corpus, words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    std::string value;
    const auto is = [&](std::string_view name) {
      const bool matches = argument.starts_with(name);
      if (matches) value = argument.substr(name.size());
      return matches;
    };
    if (is("-runs=")) {
      runs = std::stoull(value);
    } else if (is("-seed=")) {
      seed = std::stoull(value);
    } else if (is("-max_total_time=")) {
      seconds = std::stod(value);
    } else if (is("-dict=")) {
      words = read_dictionary(value);
    } else if (fs::is_directory(argument)) {
      for (const fs::directory_entry& file : fs::directory_iterator(argument)) corpus.push_back(read_file(file.path()));
    } else if (fs::is_regular_file(argument)) {
      corpus.push_back(read_file(argument));
      runs = 0;
    } else {
      std::fprintf(stderr, "usage: %s [-runs=N] [-seed=N] [-max_total_time=S] [-dict=FILE] FOLDER... | FILE...\n",
                   argv[0]);
      return 2;
    }
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: no corpus to start from\n");
    return 2;
  }
  std::ranges::sort(corpus);  // a folder has no order, and the seed must mean the same everywhere
  std::printf("fuzz: seed %llu, %zu inputs in the corpus, %zu words\n", static_cast<unsigned long long>(seed),
              corpus.size(), words.size());
  std::fflush(stdout);
  std::snprintf(crash_file, sizeof crash_file, "crash-%llu", static_cast<unsigned long long>(seed));
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, keep_input);

  for (const std::string& input : corpus) run(input);
  Mutator mutator(corpus, words, seed);
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (; done < runs; ++done) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    run(mutator.next());
  }
  std::printf("fuzz: %llu inputs, 0 crashes\n", static_cast<unsigned long long>(done + corpus.size()));
  return 0;
}
