#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/release.h"
#include "cli/run.h"

static const char help[] = "Usage: tidelock COMMAND [flags]\n"
                           "\n"
                           "Commands:\n"
                           "  run       run scripts against a cluster\n"
                           "  release   hand back what a removed script left, or give it to another\n"
                           "  version   print the version\n"
                           "\n"
                           "tidelock COMMAND --help tells a command's flags.\n";

static int print_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    puts("tidelock " TIDELOCK_VERSION);
    return 0;
}

static int print_help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs(help, stdout);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", cli_run},     {"release", cli_release}, {"version", print_version}, {"--version", print_version},
    {"help", print_help}, {"--help", print_help},   {"-h", print_help},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    alloc_give_back();
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "tidelock: %s%s\n%s", name[0] == '\0' ? "which command?" : "unknown command ", name,
            help);
    return 2;
}
