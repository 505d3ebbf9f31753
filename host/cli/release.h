// `tidelock release`: hands back what a removed script left in the cluster, or gives it to another. Main
// thread. Exit code: 0; 1 when some of it could not be done; 2 for wrong flags or a configuration that can
// not work; 3 when there is nothing of such a script.
#ifndef CLI_RELEASE_H
#define CLI_RELEASE_H

int cli_release(int argc, char **argv);

#endif
