// main — builds the objects and hands them to each other; nothing else. The command line is cli/.
#include <span>

#include "cli/cli.h"

int main(int argc, char** argv) {
  return caisson::cli::command(std::span(argv, static_cast<std::size_t>(argc)));
}
