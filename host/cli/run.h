// `tidelock run`: the host over a real cluster. Main thread, which becomes the loop thread. Returns the exit
// code: 0 after a signal, 1 when it had to be cut short, 2 for a configuration that can not work.
#ifndef CLI_RUN_H
#define CLI_RUN_H

int cli_run(int argc, char **argv);

#endif
